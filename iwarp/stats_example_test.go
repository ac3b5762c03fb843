package iwarp_test

import (
	"context"
	"fmt"

	"github.com/nfsrdma/nfsrdma/iwarp/rdmap"
	"github.com/nfsrdma/nfsrdma/rdma"
)

// Stats counts for all connections of a device, here for both ends.
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
	fmt.Println("octets received:", now.Received.Octets-before.Received.Octets)
	invalid := rdmap.ErrInvalidSTag
	fmt.Printf("Terminates received, %v: %d\n", invalid, now.TerminatesReceived[invalid]-before.TerminatesReceived[invalid])

	// Output:
	// connections: 2
	// Sends received: 1
	// octets received: 5
	// Terminates received, RDMAP remote protection error: invalid STag: 0
}
