package rpcstats

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpctest"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
	"github.com/stretchr/testify/assert"
)

// A callerFunc is a Caller for one test.
type callerFunc func(ctx context.Context, x *oncrpc.Exchange) error

func (f callerFunc) Call(ctx context.Context, x *oncrpc.Exchange) error { return f(ctx, x) }

func TestCounter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		next := callerFunc(func(_ context.Context, x *oncrpc.Exchange) error {
			time.Sleep(time.Second)
			switch x.Proc {
			case 1: // with a separate data item
				x.Results = xdr.NewReader(appendWords(0, 5))
				x.Results.SetMoved(make([]byte, 5))
			case 2:
				x.Results = xdr.NewReader(appendWords(2))
			case 3:
				<-hold
				return errors.New("lost")
			}
			return nil
		})
		c := NewCounter(next, Observed{Prog: rpctest.NFS, Vers: 3, Procs: 4, HasStatus: func(proc uint32) bool { return proc != 0 }})
		call := func(vers, proc uint32) error {
			x := &oncrpc.Exchange{Prog: rpctest.NFS, Vers: vers, Proc: proc, Args: make([]byte, 8), Item: make([]byte, 100), Tail: make([]byte, 4)}
			err := c.Call(t.Context(), x)
			if proc == 2 {
				assert.EqualValues(t, 2, x.Results.Uint32(), "the results are untouched")
			}
			return err
		}
		for _, proc := range []uint32{0, 1, 1, 2} {
			assert.NoError(t, call(3, proc))
		}
		assert.NoError(t, call(4, 1), "another version")
		assert.NoError(t, call(3, 4), "an unknown procedure")
		got := make(chan error)
		go func() { got <- call(3, 3) }()
		synctest.Wait()
		assert.Equal(t, CallStats{InFlight: 1, Sent: 112}, c.Stats(3))
		close(hold)
		assert.Error(t, <-got)

		second := time.Second
		assert.Equal(t, CallStats{Calls: 1, Sent: 112, Duration: second}, c.Stats(0))
		assert.Equal(t, CallStats{Calls: 2, Sent: 224, Received: 26, Duration: 2 * second}, c.Stats(1))
		assert.Equal(t, CallStats{Calls: 1, Failed: 1, Sent: 112, Received: 4, Duration: second}, c.Stats(2))
		assert.Equal(t, CallStats{Calls: 1, Failed: 1, Sent: 112, Duration: second}, c.Stats(3))
	})
}
