package rpcrdma

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A diskWaitConn is a connection whose data to send may be on a disk that does not answer.
type diskWaitConn struct{ *tappedConn }

func (c diskWaitConn) AwaitsSource() bool { return c.p.awaits() }

// TestHungDisk checks that a peer is not judged while a disk delays its replies, neither by itself
// nor when calls wait for memory, and that the server is not locked while the connection is asked.
func TestHungDisk(t *testing.T) {
	var hung atomic.Bool
	var asked atomic.Int64
	s := newTightServer(new(gate))
	s.Handler, s.MaxMemory = null, 2*s.MaxMemory
	p := &tapListener{awaits: func() bool {
		asked.Add(1)
		time.Sleep(100 * time.Millisecond)
		s.Connections()
		s.Stats()
		return hung.Load()
	}}
	withTappedServer(t, s, p, func(t *testing.T, r *testServer) {
		for name, press := range map[string]bool{"by itself": false, "others wait for memory": true} {
			t.Log(name)
			hung.Store(true)
			asked.Store(0)
			stuck := []*requester{r.dialFrom(1), r.dialFrom(2)}
			for _, q := range stuck {
				q.Delay(24 * time.Hour)
				for i := range uint32(4) {
					q.writeLarge(i)
				}
			}
			other := r.dialFrom(3)
			time.Sleep(24*time.Hour + time.Second) // the calls arrive
			if press {
				other.writeLarge(testXID)
				synctest.Wait()
				require.Equal(t, 1, s.Stats().Waiting)
			}
			time.Sleep(10 * stallTime)
			synctest.Wait()
			assert.Positive(t, asked.Load())
			cut := s.Stats().Stalled
			assert.Empty(t, append(stuck[0].closeErrors(), stuck[1].closeErrors()...))
			hung.Store(false)
			time.Sleep(2 * stallTime)
			synctest.Wait()
			for _, q := range stuck {
				require.Len(t, q.closeErrors(), 1)
				assert.True(t, errors.Is(q.closeErrors()[0], errStalled) || press && errors.Is(q.closeErrors()[0], errSlow), "%v", q.closeErrors()[0])
			}
			assert.Equal(t, press, s.Stats().Stalled > cut)
			assert.Empty(t, other.closeErrors())
			other.Abort(nil)
			synctest.Wait()
		}
	})
}
