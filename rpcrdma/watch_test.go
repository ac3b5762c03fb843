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
	serve(t, &Server{Handler: null}, func(t *testing.T, r *rig) {
		q := r.dialLinux()
		q.Delay(time.Hour)
		q.call(msg(chunks.Lists{Reads: q.reads(40, repeat(100))}), rpcCall(testXID, ""))
		time.Sleep(time.Hour) // the call arrives
		synctest.Wait()
		require.Empty(t, q.ended())
		time.Sleep(2 * stallTime)
		synctest.Wait()
		require.Len(t, q.ended(), 1)
		assert.ErrorIs(t, q.ended()[0], errStalled)
	})
}

// TestReplyNotTaken checks the same for a peer that does not read its replies.
func TestReplyNotTaken(t *testing.T) {
	serve(t, &Server{Handler: null}, func(t *testing.T, r *rig) {
		q := r.dialLinux()
		defer q.Pause()()
		for range 100 {
			q.call(msg(chunks.Lists{}), rpcCall(testXID, ""))
			synctest.Wait()
		}
		time.Sleep(2 * stallTime)
		synctest.Wait()
		require.Len(t, q.ended(), 1)
		assert.ErrorIs(t, q.ended()[0], errStalled)
	})
}

// TestSlowPeer checks that neither a slow nor an idle peer is cut off.
func TestSlowPeer(t *testing.T) {
	serve(t, &Server{Handler: null}, func(t *testing.T, r *rig) {
		q := r.dialLinux()
		time.Sleep(10 * stallTime)
		q.Delay(stallTime - time.Second)
		for range 10 {
			q.call(msg(chunks.Lists{Reads: q.reads(40, repeat(100))}), rpcCall(testXID, ""))
			time.Sleep(2 * stallTime)
			q.answer()
		}
		for range 20 { // always one under way, and not always the same
			q.call(msg(chunks.Lists{Reads: q.reads(40, repeat(100))}), rpcCall(testXID, ""))
			time.Sleep(stallTime / 2)
		}
		time.Sleep(10 * stallTime)
		assert.Len(t, q.answers(), 20, "R8166-3.3.1-8: no unsolicited message")
		assert.Empty(t, q.ended())
	})
}

// TestPullTimesCheap checks that noting an RDMA Read moves at most a few of the
// others, however many are under way, and that memory stays bounded.
func TestPullTimesCheap(t *testing.T) {
	for _, least := range []int{1, 2, 100, 1000} {
		p, moved := new(pullTimes), 0
		for len(p.all) < least || len(p.all) < cap(p.all) { // until no room is left
			p.begin()
		}
		underWay := len(p.all)
		const rounds = 10_000
		for range rounds {
			p.end()
			if underWay == 1 {
				_, ok := p.oldest()
				assert.False(t, ok)
			}
			first, size := p.first, cap(p.all)
			p.begin()
			if p.first < first || cap(p.all) != size {
				moved += len(p.all)
			}
		}
		assert.Equal(t, underWay, len(p.all)-p.first)
		assert.LessOrEqual(t, moved, 4*(rounds+underWay), "%d under way", underWay)
		assert.LessOrEqual(t, cap(p.all), 6*underWay+8)
	}
}
