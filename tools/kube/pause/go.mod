module example.test/pause

go 1.26.0
