package oncrpc

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/mappedsend"
)

// TestCrowdedDisks checks that a reply in a mapping waits, without a thread, while too many
// others wait for disks; that no further item is in a mapping then; and that the end of
// the connection ends the wait.
func TestCrowdedDisks(t *testing.T) {
	const size = 300_000
	f := newLentFile(t, size)
	mappable := make(chan bool, 1)
	m := &Mux{Log: discardLogger()}
	m.Register(testProg, 2, handlerFunc(func(ctx context.Context, c *Call, r *Reply) error {
		mappable <- r.Mappable
		if err := f.ServeRPC(ctx, c, r); err != nil || !r.Mappable {
			return err
		}
		for range mappedsend.Most {
			require.True(t, mappedsend.Enter())
		}
		return nil
	}))
	l := &lendingServer{testServer: startServer(t, &Server{Handler: m, MaxRecord: size + 1<<10, Log: discardLogger()}), f: f}
	for _, cut := range []bool{false, true} {
		nc := l.dialServer()
		_, err := nc.Write(lendCall(1, procLend, 0, size))
		require.NoError(t, err)
		assert.True(t, <-mappable)
		require.NoError(t, nc.SetReadDeadline(time.Now().Add(50*time.Millisecond)))
		_, err = nc.Read(make([]byte, 1))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		require.NoError(t, nc.SetReadDeadline(time.Time{}))
		assert.Equal(t, lendReply(2, 0, size), l.exchangeBytes(lendCall(2, procLend, 0, size), len(lendReply(2, 0, size))), "by a buffer")
		assert.False(t, <-mappable)
		for _, c := range l.listConns() {
			if c.peer.Addr == addrPort(nc.LocalAddr()) {
				for round := range uint64(3) {
					assert.False(t, c.isStalled(round), "the peer is not to blame")
				}
				assert.NoError(t, c.nc.SetWriteDeadline(time.Now())) // the wait has been long
			}
		}
		if cut {
			for _, c := range l.listConns() {
				c.abort(errors.New("cut"))
			}
			l.awaitReturned()
			mappedsend.Leave()
		} else {
			mappedsend.Leave()
			assert.Equal(t, lendReply(1, 0, size)[markLen:], readRecord(t, nc))
			l.awaitReturned()
		}
		for range mappedsend.Most - 1 {
			mappedsend.Leave()
		}
	}
}
