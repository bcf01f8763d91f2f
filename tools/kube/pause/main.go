// What runs in test containers: the process that holds a pod's namespaces, and one that tells what it was given.
//
//	pause             wait until told to end
//	pause tell        print the environment, one variable a line, then wait
//	pause exit CODE   end at once
package main

import (
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"
)

func main() {
	ending := make(chan os.Signal, 1)
	signal.Notify(ending, syscall.SIGTERM, syscall.SIGINT)
	if len(os.Args) == 3 && os.Args[1] == "exit" {
		code, err := strconv.Atoi(os.Args[2])
		if err != nil {
			code = 125
		}
		os.Exit(code)
	}
	if len(os.Args) == 2 && os.Args[1] == "tell" {
		for _, variable := range os.Environ() {
			fmt.Println(variable)
		}
	}
	<-ending
}
