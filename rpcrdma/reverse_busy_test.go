package rpcrdma

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/oncrpc"
)

// TestReverseWhileBusy checks that replies in the reverse direction are read
// even if calls in handlers have all the requester's credits, the dispatcher is
// busy, or calls wait for memory.
func TestReverseWhileBusy(t *testing.T) {
	var peer *oncrpc.Peer
	for name, busy := range map[string]func(t *testing.T, r *testServer) func(){
		"calls in handlers": func(*testing.T, *testServer) func() { return func() {} },
		"no goroutine left": func(_ *testing.T, r *testServer) func() {
			r.calls.mu.Lock() // the dispatcher may still handle the first call
			defer r.calls.mu.Unlock()
			r.calls.max = 2
			return func() {}
		},
		"no memory left": func(t *testing.T, r *testServer) func() {
			all := r.memory.Part()
			for n := r.cfg.partyShare(); n > 0; n /= 2 {
				for all.TryAcquire(n) {
				}
			}
			other := r.memory.Part()
			require.True(t, other.TryAcquire(r.cfg.maxMemory-r.memory.InUse()))
			return func() {
				other.Release(r.memory.InUse() - r.cfg.partyShare())
				all.Release(r.cfg.partyShare())
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			var open chan struct{}
			mux := new(oncrpc.Mux)
			mux.Register(echoProg, 1, handlerFunc(func(_ context.Context, c *oncrpc.Call, _ *oncrpc.Reply) error {
				c.Args.Item(1 << 20)
				if c.Proc == 1 {
					peer = c.Peer
				} else {
					<-open
				}
				return nil
			}))
			withServer(t, &Server{Handler: mux}, func(t *testing.T, r *testServer) {
				open = make(chan struct{})
				c, err := DialConn(t.Context(), &memDialer{l: r.listen}, "", ClientConnConfig{Backchannel: callbackService(repeater)})
				require.NoError(t, err)
				call := func(proc uint32, item []byte) error {
					x := &oncrpc.Exchange{Prog: echoProg, Vers: 1, Proc: proc, Args: []byte{0, 1, 0, 0}, Item: item}
					defer x.Release()
					return c.Call(t.Context(), x)
				}
				require.NoError(t, call(1, make([]byte, 1<<16)))
				done := busy(t, r)
				ends := make(chan error, c.Credits())
				for range c.Credits() {
					go func() { ends <- call(2, make([]byte, 1<<16)) }()
				}
				synctest.Wait()
				assert.Empty(t, ends)
				assert.Equal(t, name == "no memory left", r.Stats().Waiting > 0)
				assert.NoError(t, callBack(t.Context(), peer.Reverse, "recalled"))
				done()
				close(open)
				for range c.Credits() {
					assert.NoError(t, <-ends)
				}
				require.NoError(t, c.Close())
			})
		})
	}
}
