package rpcrdma

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/chunks"
)

// TestReadNotAnswered checks that a peer that does not answer an RDMA Read is
// cut off within twice stallTime.
func TestReadNotAnswered(t *testing.T) {
	withServer(t, &Server{Handler: null}, func(t *testing.T, r *testServer) {
		q := r.dialLinux()
		q.Delay(time.Hour)
		q.sendCall(newMsg(chunks.Lists{Reads: q.readSegments(40, patternBytes(100))}), rpcCall(testXID, ""))
		time.Sleep(time.Hour) // the call arrives
		synctest.Wait()
		require.Empty(t, q.closeErrors())
		time.Sleep(2 * stallTime)
		synctest.Wait()
		require.Len(t, q.closeErrors(), 1)
		assert.ErrorIs(t, q.closeErrors()[0], errStalled)
	})
}

// TestReplyNotTaken checks the same for a peer that does not read its replies.
func TestReplyNotTaken(t *testing.T) {
	withServer(t, &Server{Handler: null}, func(t *testing.T, r *testServer) {
		q := r.dialLinux()
		defer q.Pause()()
		for range 100 {
			q.sendCall(newMsg(chunks.Lists{}), rpcCall(testXID, ""))
			synctest.Wait()
		}
		time.Sleep(2 * stallTime)
		synctest.Wait()
		require.Len(t, q.closeErrors(), 1)
		assert.ErrorIs(t, q.closeErrors()[0], errStalled)
	})
}

// TestSlowPeer checks that neither a slow nor an idle peer is cut off.
func TestSlowPeer(t *testing.T) {
	withServer(t, &Server{Handler: null}, func(t *testing.T, r *testServer) {
		q := r.dialLinux()
		time.Sleep(10 * stallTime)
		q.Delay(stallTime - time.Second)
		for range 10 {
			q.sendCall(newMsg(chunks.Lists{Reads: q.readSegments(40, patternBytes(100))}), rpcCall(testXID, ""))
			time.Sleep(2 * stallTime)
			q.onlyAnswer()
		}
		for range 20 { // always one in flight, and not always the same
			q.sendCall(newMsg(chunks.Lists{Reads: q.readSegments(40, patternBytes(100))}), rpcCall(testXID, ""))
			time.Sleep(stallTime / 2)
		}
		time.Sleep(10 * stallTime)
		assert.Len(t, q.newAnswers(), 20, "R8166-3.3.1-8: no unsolicited message")
		assert.Empty(t, q.closeErrors())
	})
}

// TestPullTimesCheap checks that noting an RDMA Read moves at most a few
// others, however many are in flight, and that memory stays bounded.
func TestPullTimesCheap(t *testing.T) {
	for _, least := range []int{1, 2, 100, 1000} {
		p, moved := new(pullTimes), 0
		for len(p.times) < least || len(p.times) < cap(p.times) { // until the slice is full
			p.addBatch()
		}
		underWay := len(p.times)
		const rounds = 10_000
		for range rounds {
			p.removeOldest()
			if underWay == 1 {
				_, ok := p.oldest()
				assert.False(t, ok)
			}
			first, size := p.first, cap(p.times)
			p.addBatch()
			if p.first < first || cap(p.times) != size {
				moved += len(p.times)
			}
		}
		assert.Equal(t, underWay, len(p.times)-p.first)
		assert.LessOrEqual(t, moved, 4*(rounds+underWay), "%d in flight", underWay)
		assert.LessOrEqual(t, cap(p.times), 6*underWay+8)
	}
}
