package rpcrdma

import (
	"bytes"
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdma/nfsrdma/chunks"
	"github.com/nfsrdma/nfsrdma/internal/fairshare"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A trickleConn is a connection on which just enough bytes move between checks.
type trickleConn struct {
	rdma.Conn
	in uint64
}

func (c *trickleConn) Traffic() (in, out uint64) {
	c.in += fairshare.Bulk
	return c.in, 0
}

// TestMemoryPressedByTrickles checks that peers that hold all memory, and move
// a little, lose memory to calls that have waited for long: the connection
// whose RDMA Reads take longest is ended, whether or not the server just serves
// other calls on the connection.
func TestMemoryPressedByTrickles(t *testing.T) {
	for name, held := range map[string]int{"no others": 0, "others of the slowest": 1, "others of both": 3} {
		t.Run(name, func(t *testing.T) {
			open := make(chan struct{})
			s := newTightServer(new(gate))
			s.MaxMemory *= 2
			s.Handler = serviceFunc(func(ctx context.Context, req *oncrpc.Request, rep *oncrpc.Reply) bool {
				if bytes.Contains(req.Msg, []byte("wait")) {
					<-open
				}
				return null(ctx, req, rep)
			})
			withTappedServer(t, s, &tapListener{trickles: true}, func(t *testing.T, r *testServer) {
				open = make(chan struct{})
				slow := make(map[int]*requester)
				for host := 1; host <= 2; host++ {
					q := r.dialFrom(byte(host))
					if held&host != 0 {
						q.sendCall(newMsg(chunks.Lists{}), rpcCall(testXID, "wait"))
						synctest.Wait()
					}
					q.Delay(time.Hour + time.Duration(host)*time.Second)
					for i := range uint32(4) {
						q.writeLarge(i)
					}
					slow[host] = q
				}
				waits := r.dialFrom(3)
				time.Sleep(time.Hour + 3*time.Second) // the calls arrive
				synctest.Wait()
				waits.writeLarge(testXID)
				time.Sleep(pullTime - time.Millisecond)
				require.Empty(t, waits.newAnswers())
				time.Sleep(time.Millisecond)
				defer close(open)
				assert.Len(t, waits.newAnswers(), 1)
				require.Len(t, slow[1].closeErrors(), 1)
				assert.ErrorIs(t, slow[1].closeErrors()[0], errSlow)
				assert.ErrorIs(t, errSlow, ErrBound, "it moved")
				assert.Empty(t, slow[2].closeErrors())
				delete(slow, 1)
				for _, q := range slow {
					q.Abort(nil)
				}
				synctest.Wait()
				assert.Empty(t, waits.closeErrors())
				waits.Abort(nil)
			})
		})
	}
}
