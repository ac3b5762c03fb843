package iwarp

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/rdma"
)

func isFault(err error) bool {
	var f *Fault
	return errors.As(err, &f)
}

// inBubbleWait sends the segments one by one, and calls check after all effects
// of each segment.
func inBubbleWait(t *testing.T, segments [][]byte, check func(t *testing.T, e endpoint, sent int)) {
	t.Helper()
	inBubble(t, func(t *testing.T, e endpoint, p *rawPeer, _ <-chan struct{}) {
		for i, s := range segments {
			p.send(s)
			synctest.Wait()
			check(t, e, i+1)
		}
	})
}

// TestDDPStarts checks that both ends take and send DDP segments in both
// directions from the start-up on (R5041-6.1-1), under a CRC32C unless both
// ends decline it (R5041-3-6-1).
func TestDDPStarts(t *testing.T) {
	world(t)
	a, b := pair(t, options{})
	assert.True(t, a.Params().CRC)
	assert.True(t, b.Params().CRC)
	open(t, a, b)
	open(t, b, a)
}

// TestDDPEndsNothing checks that a stream ends only when the peer, the lower
// layer or the upper layer ends it, and not before the upper layer has had the
// chance to react to an error (R5041-6.2-1, R5041-6.2.2-4).
func TestDDPEndsNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, e endpoint, p *rawPeer, fin <-chan struct{}) {
		time.Sleep(1000 * time.Hour)
		assert.Empty(t, e.in.closed)
		p.send(sendSeg(true, 1, 0, []byte("still")))
		assert.Equal(t, "still", string(e.in.next(t)))
		require.NoError(t, e.Post(rdma.WR{Op: rdma.OpSend}))
		p.segment()
		p.send(sendSeg(true, 9, 0, nil))
		synctest.Wait()
		assert.Empty(t, e.in.closed)
		select {
		case <-fin:
			assert.Fail(t, "a FIN before the Terminate")
		default:
		}
		parseTerminate(t, p.segment())
		<-fin
	})
}
