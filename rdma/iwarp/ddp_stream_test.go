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

// inBubbleWait sends the segments one by one, and calls check when each segment
// has had all its effects.
func inBubbleWait(t *testing.T, segments [][]byte, check func(t *testing.T, e endpoint, sent int)) {
	t.Helper()
	inBubble(t, func(t *testing.T, e endpoint, p *rawPeer, _ <-chan struct{}) {
		for i, s := range segments {
			p.sendSegments(s)
			synctest.Wait()
			check(t, e, i+1)
		}
	})
}

// TestDDPStarts checks that both ends take and send DDP segments in both
// directions from the start-up on (R5041-6.1-1), under a CRC32C unless both
// ends decline it (R5041-3-6-1).
func TestDDPStarts(t *testing.T) {
	checkLeaks(t)
	a, b := connectPair(t, pairOptions{})
	assert.True(t, a.Params().CRC)
	assert.True(t, b.Params().CRC)
	sendFirst(t, a, b)
	sendFirst(t, b, a)
}

// TestDDPEndsNothing checks that a stream ends only when the peer, the lower
// layer or the upper layer ends it, and not before the upper layer has had the
// chance to react to an error (R5041-6.2-1, R5041-6.2.2-4).
func TestDDPEndsNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, e endpoint, p *rawPeer, fin <-chan struct{}) {
		time.Sleep(1000 * time.Hour)
		assert.Empty(t, e.inbox.closed)
		p.sendSegments(sendSeg(true, 1, 0, []byte("still")))
		assert.Equal(t, "still", string(e.inbox.nextMessage(t)))
		require.NoError(t, e.Post(rdma.WR{Op: rdma.OpSend}))
		p.readSegment()
		p.sendSegments(sendSeg(true, 9, 0, nil))
		synctest.Wait()
		assert.Empty(t, e.inbox.closed)
		select {
		case <-fin:
			assert.Fail(t, "a FIN before the Terminate")
		default:
		}
		parseTerminate(t, p.readSegment())
		<-fin
	})
}
