package nfsclient

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/oncrpc"
)

// TestCallsOutlast checks that a call in flight continues when a context with
// the value Calls ends, and that no call is sent afterwards.
func TestCallsOutlast(t *testing.T) {
	inBubble(t, small, func(t *testing.T, g *testServer) {
		f := g.putFile("f", sampleData(3*4096))
		held := g.blockProc(nfs3.ProcRead)
		calls, end := context.WithCancel(t.Context())
		defer end()
		ctx, cancel := context.WithCancel(context.WithValue(t.Context(), Calls{}, calls))
		read := func() error {
			_, err := g.c.Read(ctx, f.Handle(), 0, make([]byte, 4096))
			return err
		}
		var err error
		returned := startLater(func() error { err = read(); return err })
		assert.False(t, returned())
		cancel()
		assert.False(t, returned(), "its memory is in use")
		close(held)
		assert.True(t, returned())
		assert.NoError(t, err)
		made := g.callCount(nfs3.ProcRead)
		assert.ErrorIs(t, read(), ErrNotMade)
		assert.ErrorIs(t, read(), context.Canceled)
		assert.Equal(t, made, g.callCount(nfs3.ProcRead))
	})
}

// TestCallsPutOff checks that a call that the server postpones is not repeated
// after the context has ended.
func TestCallsPutOff(t *testing.T) {
	inBubble(t, Config{Patience: 1 << 62}, func(t *testing.T, g *testServer) {
		ctx, cancel := context.WithCancel(context.WithValue(t.Context(), Calls{}, t.Context()))
		g.before = func(_ context.Context, x *oncrpc.Exchange) ([]byte, error) {
			return failingCaller(x.Proc, nfs3.ErrJukebox), nil
		}
		var err error
		returned := startLater(func() error { _, err = g.c.GetAttr(ctx, g.root); return err })
		assert.False(t, returned())
		cancel()
		require.True(t, returned())
		assert.ErrorIs(t, err, ErrNotMade)
	})
}
