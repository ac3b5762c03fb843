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

	"github.com/nfsrdma/nfsrdma/iwarp"
	"github.com/nfsrdma/nfsrdma/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
)

// A short call that does not end, as on a disk that has gone, keeps nobody: others
// of its connection and of other connections are answered, more of its kind too.
func TestStuckCalls(t *testing.T) {
	null := new(oncrpc.Mux)
	null.Register(1, 1, nil) // its procedure 0 is the Mux's own
	open := make(chan struct{})
	var stuck atomic.Int32
	program := service(func(ctx context.Context, req *oncrpc.Request, rep *oncrpc.Reply) bool {
		if proc := req.Msg[20:24]; binary.BigEndian.Uint32(proc) == 1 {
			stuck.Add(1)
			<-open
			clear(proc) // it is answered as procedure 0
		}
		return null.Serve(ctx, req, rep)
	})
	cfg := iwarp.Config{CRC: mpa.CRCOff}
	addr := responder(t, cfg, &rpcrdma.Server{Handler: program})
	var clients [2]*rpcrdma.ClientConn
	for i := range clients {
		var err error
		clients[i], err = rpcrdma.DialConn(t.Context(), dialIWARP{cfg}, addr, rpcrdma.ClientConnConfig{})
		require.NoError(t, err)
		defer clients[i].Close()
	}
	call := func(c *rpcrdma.ClientConn, proc uint32) {
		x := &oncrpc.Exchange{Prog: 1, Vers: 1, Proc: proc}
		defer x.Release()
		assert.NoError(t, c.Call(t.Context(), x))
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
