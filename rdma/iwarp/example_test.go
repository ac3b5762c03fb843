package iwarp_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/ddp"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/rdmap"
)

// device is the examples' software RNIC.
var device = iwarp.Open(iwarp.Config{})

// connect returns both ends of a connection through this host.
func connect(ctx context.Context, client, server rdma.ConnConfig) (c, s rdma.Conn) {
	l, err := device.Listen("tcp", "127.0.0.1:0")
	check(err)
	defer l.Close()
	accepted := make(chan rdma.Conn)
	go func() {
		req, err := l.Accept(ctx)
		check(err)
		conn, err := req.Accept(server)
		check(err)
		accepted <- conn
	}()
	c, err = device.Dial(ctx, l.Addr().String(), client)
	check(err)
	return c, <-accepted
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// A client writes bytes to memory that the server has registered, and announces
// them by Immediate Data with an event.
func Example() {
	ctx := context.Background()
	inbox := rdma.NewReceiveQueue()
	client, server := connect(ctx,
		rdma.ConnConfig{Handler: rdma.NewReceiveQueue()},
		rdma.ConnConfig{Handler: inbox, Recvs: 1, Immediate: true})
	defer client.Close()
	defer server.Close()

	memory := make([]byte, 4096)
	region, err := server.Register(memory, rdma.RemoteWrite)
	check(err)
	to := rdma.Remote{STag: region.STag(), TO: region.TO()} // a real server sends this

	done := rdma.NewCompletionQueue(2)
	check(client.Post(
		rdma.WR{Op: rdma.OpWrite, Data: [][]byte{[]byte("placed once")}, Remote: to, Done: done, ID: 1},
		rdma.WR{Op: rdma.OpImmediate, Immediate: [8]byte{11}, Solicited: true, Done: done, ID: 2},
	))

	check(inbox.WaitSolicited(ctx))
	messages := make([]rdma.Recv, 8)
	n, err := inbox.Poll(messages)
	check(err)
	region.Deregister() // from now on the memory belongs to the server alone
	fmt.Printf("%d message: %q\n", n, memory[:messages[0].Immediate[0]])
	for range 2 {
		c, err := done.Wait(ctx)
		check(err)
		fmt.Println(c.ID, c.Op, c.Err)
	}
	// Output:
	// 1 message: "placed once"
	// 1 RDMA Write <nil>
	// 2 Immediate Data <nil>
}

// A word that both the client and the server use as a counter.
func Example_atomic() {
	ctx := context.Background()
	none := rdma.ConnConfig{Handler: rdma.NewReceiveQueue()}
	client, server := connect(ctx, none, rdma.ConnConfig{Handler: rdma.NewReceiveQueue()})
	defer client.Close()
	defer server.Close()

	memory := make([]byte, 4096)
	region, err := server.Register(memory, rdma.RemoteAtomic)
	check(err)
	defer region.Deregister()
	word, err := rdma.Word(memory, 8)
	check(err)
	at := rdma.Remote{STag: region.STag(), TO: region.TO() + 8}

	check(rdma.ProbeAtomics(ctx, client, at)) // ends the connection if the peer lacks atomics
	word.Add(40)
	done := rdma.NewCompletionQueue(2)
	check(client.Post(
		rdma.WR{Op: rdma.OpFetchAdd, Remote: at, Atomic: rdma.Atomic{Operand: 2}, Done: done},
		rdma.WR{Op: rdma.OpCompareSwap, Remote: at, Atomic: rdma.Atomic{
			Compare: 42, CompareMask: rdma.AllBits, Operand: 1000, OperandMask: rdma.AllBits,
		}, Done: done},
	))
	for range 2 {
		c, err := done.Wait(ctx)
		check(err)
		fmt.Println(c.Op, "found", c.Original)
	}
	fmt.Println("now", word.Load())
	// Output:
	// FetchAdd found 40
	// CmpSwap found 42
	// now 1000
}

// A forbidden access ends the connection, and both ends learn the reason.
func Example_errors() {
	ctx := context.Background()
	client, server := connect(ctx,
		rdma.ConnConfig{Handler: rdma.NewReceiveQueue()},
		rdma.ConnConfig{Handler: rdma.NewReceiveQueue()})
	defer client.Close()
	defer server.Close()

	done := rdma.NewCompletionQueue(2)
	nowhere := rdma.Remote{STag: 0x11223344}
	check(client.Post(
		rdma.WR{Op: rdma.OpWrite, Data: [][]byte{{1, 2, 3}}, Remote: nowhere, Done: done}, // sent, and therefore complete
		rdma.WR{Op: rdma.OpRead, Data: [][]byte{make([]byte, 3)}, Remote: nowhere, Done: done},
	))
	for range 2 {
		c, err := done.Wait(ctx)
		check(err)
		var fault *iwarp.Fault
		switch {
		case errors.As(c.Err, &fault):
			fmt.Println(c.Op, "flushed:", errors.Is(c.Err, rdma.ErrFlushed))
			fmt.Println("found by the peer:", fault.Remote)
			fmt.Println(fault.Terminate.Cause, errors.Is(c.Err, ddp.ErrInvalidSTag))
		default:
			fmt.Println(c.Op, c.Err)
		}
	}
	// Output:
	// RDMA Write <nil>
	// RDMA Read flushed: true
	// found by the peer: true
	// DDP tagged buffer error: invalid STag true
}

// Stats counts for all of a device's connections, here for both ends.
func ExampleDevice_Stats() {
	before := device.Stats()
	inbox, done := rdma.NewReceiveQueue(), rdma.NewCompletionQueue(1)
	client, server := connect(context.Background(),
		rdma.ConnConfig{Handler: rdma.NewReceiveQueue()},
		rdma.ConnConfig{Handler: inbox, Recvs: 1})
	defer client.Close()
	defer server.Close()
	check(client.Post(rdma.WR{Op: rdma.OpSend, Data: [][]byte{[]byte("hello")}, Done: done}))
	m, err := inbox.Wait(context.Background())
	check(err)
	m.Buf.Release()

	now := device.Stats()
	fmt.Println("connections:", now.ConnectionsTotal-before.ConnectionsTotal)
	fmt.Println("Sends received:", now.Received.Messages[rdmap.OpSend]-before.Received.Messages[rdmap.OpSend])
	fmt.Println("bytes received:", now.Received.Bytes-before.Received.Bytes)
	invalid := rdmap.ErrInvalidSTag
	fmt.Printf("Terminates received, %v: %d\n", invalid, now.TerminatesReceived[invalid]-before.TerminatesReceived[invalid])

	// Output:
	// connections: 2
	// Sends received: 1
	// bytes received: 5
	// Terminates received, RDMAP remote protection error: invalid STag: 0
}
