package iwarp

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/mappedsend"
	"github.com/nfsrdma/nfsrdma/rdma"
)

// TestCrowdedDisks checks that data in a mapping wait, without a thread, while too many others wait
// for disks; that the upper layer is told to use no further mappings during that time; and that the
// end of the connection ends the wait.
func TestCrowdedDisks(t *testing.T) {
	for _, name := range []string{"tcp", "tcp, crc"} {
		for _, cut := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				checkLeaks(t)
				a, b := connectPair(t, transports[name])
				c, d := connectPair(t, transports[name])
				file, _ := mapFile(t, 300_000)
				sink, done := make([]byte, len(file)), make(completionWaiter, 1)
				r, err := b.Register(sink, rdma.RemoteWrite)
				require.NoError(t, err)
				assert.True(t, a.SendsMapped())
				for range mappedsend.Most {
					require.True(t, mappedsend.Enter())
				}
				assert.False(t, a.SendsMapped())
				go a.Post(rdma.WR{
					Op: rdma.OpWrite, Data: [][]byte{file}, Remote: rdma.Remote{STag: r.STag()}, Done: done,
					Reread: func([]byte, int) (int, int) { t.Error("the memory can be read"); return 0, 0 },
				})
				select {
				case <-done:
					t.Error("sent")
				case <-time.After(50 * time.Millisecond):
				}
				assert.True(t, a.AwaitsSource(), "the peer is not to blame")
				assert.False(t, c.AwaitsSource())
				sendFirst(t, c, d)
				if cut {
					a.Abort(errors.New("cut"))
					assert.Error(t, done.wait(t).Err)
				}
				for range mappedsend.Most {
					mappedsend.Leave()
				}
				if !cut {
					require.NoError(t, done.wait(t).Err)
					sendFirst(t, a, b)
					r.Deregister()
					assert.Equal(t, patternBytes(len(file)), sink)
				}
			})
		}
	}
}
