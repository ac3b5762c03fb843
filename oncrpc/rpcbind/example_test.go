package rpcbind_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcbind"
)

func ExampleGetPort() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	c, err := oncrpc.DialTCP(ctx, "server:111", oncrpc.ClientConfig{})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	port, err := rpcbind.GetPort(ctx, c, 100005, 3, rpcbind.TCP)
	if errors.Is(err, rpcbind.ErrNotRegistered) {
		log.Fatal("no mountd on the server")
	}
	fmt.Println(port, err)
}
