module example.test/unfiltered

go 1.26.0
