package main

import (
	"context"
	"encoding/binary"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
)

// TestStuckCalls checks that a short call that does not end, as on a lost disk,
// does not block other calls, of the same kind or not, on its own connection or
// on others.
func TestStuckCalls(t *testing.T) {
	null := new(oncrpc.Mux)
	null.Register(1, 1, nil) // the Mux answers procedure 0 itself
	open := make(chan struct{})
	var stuck atomic.Int32
	program := serviceFunc(func(ctx context.Context, req *oncrpc.Request, rep *oncrpc.Reply) bool {
		if proc := req.Msg[20:24]; binary.BigEndian.Uint32(proc) == 1 {
			stuck.Add(1)
			<-open
			clear(proc) // to be answered as procedure 0
		}
		return null.Serve(ctx, req, rep)
	})
	cfg := iwarp.Config{CRC: mpa.CRCOff}
	addr := startRDMAServer(t, iwarp.Open(cfg), &rpcrdma.Server{Handler: program})
	var clients [2]*rpcrdma.ClientConn
	for i := range clients {
		var err error
		clients[i], err = rpcrdma.DialConn(t.Context(), iwarp.Open(cfg), addr, rpcrdma.ClientConnConfig{})
		require.NoError(t, err)
		defer clients[i].Close()
	}
	call := func(c *rpcrdma.ClientConn, proc uint32) {
		x := &oncrpc.Exchange{Prog: 1, Vers: 1, Proc: proc}
		defer x.Release()
		assert.NoError(t, c.Call(t.Context(), x))
	}
	for _, c := range clients {
		call(c, 0) // until the first reply a connection has one credit
	}
	const n = 30
	var waiting sync.WaitGroup
	for range n {
		waiting.Go(func() { call(clients[0], 1) })
		call(clients[0], 0)
		call(clients[1], 0)
	}
	for stuck.Load() < n {
		time.Sleep(time.Millisecond)
	}
	close(open)
	waiting.Wait()
}
