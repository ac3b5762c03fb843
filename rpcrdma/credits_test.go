package rpcrdma

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/nfsrdma/nfsrdma/chunks"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/rdma/rdmatest"
	"github.com/nfsrdma/nfsrdma/rpcrdma/wire"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// callWithCredits sends a call that asks for the given number of credits.
func (q *requester) callWithCredits(credits, xid uint32) {
	q.t.Helper()
	h := wire.Header{XID: xid, Vers: wire.Version, Credit: credits}
	q.sendRaw(h.AppendTo(nil), rpcCall(xid, ""))
}

// TestGrant checks that each reply, including errors, grants the number that
// the call requests, but at most the configured number, and at least one
// (R8166-3.3.1-2, R8166-3.3.1-4, R8166-3.3.3-1).
func TestGrant(t *testing.T) {
	for credits, most := range map[int]uint32{0: 128, 1: 1, 4096: 4096} {
		withServer(t, &Server{Handler: null, Credits: credits}, func(t *testing.T, r *testServer) {
			q := r.dialLinux()
			for _, asked := range []uint32{0, 1, 2, 100, 128, 4096, 0xffffffff} {
				want := max(1, min(asked, most))
				q.callWithCredits(asked, testXID)
				assert.Equal(t, want, q.onlyAnswer().Credit)
				h := wire.Header{XID: testXID, Vers: wire.Version, Credit: asked, Proc: wire.MsgP}
				q.sendRaw(h.AppendTo(nil), make([]byte, 12))
				assert.Equal(t, want, q.onlyAnswer().Credit)
			}
		})
	}
}

// TestGrantFollows checks that the grant grows and shrinks with the request.
// The receives for a larger grant are posted before the reply that announces
// it; after a smaller grant their number falls, call by call (R8166-3.3.1-5,
// R8166-3.3.1-6).
func TestGrantFollows(t *testing.T) {
	var p tapListener
	withTappedServer(t, &Server{Handler: null, Credits: 64}, &p, func(t *testing.T, r *testServer) {
		q := r.dialLinux()
		atPost := 0
		p.onSend = func() { atPost = r.onlyServerConn().Recvs() }
		assert.Equal(t, 64+extraRecvs, r.onlyServerConn().Recvs())
		before := 64
		for _, asked := range []int{32, 4, 16, 1, 1000, 2, 3} {
			now := min(asked, 64)
			for n := range 70 {
				q.callWithCredits(uint32(asked), testXID)
				assert.EqualValues(t, now, q.onlyAnswer().Credit)
				want := max(before-1-n, now) + extraRecvs
				assert.Equal(t, want, atPost, "%d after %d, call %d", now, before, n)
			}
			before = now
		}
	})
}

// TestGrantOvertaken checks that receives for a larger grant stay while a reply
// with that grant may still arrive after a reply with a smaller grant, because
// replies are posted by their own goroutines (R8166-3.3.1-6).
func TestGrantOvertaken(t *testing.T) {
	var p tapListener
	withTappedServer(t, &Server{Handler: null, Credits: 16}, &p, func(t *testing.T, r *testServer) {
		q := r.dialLinux()
		held, first := make(chan struct{}), true
		p.onSend = func() {
			if first {
				first = false
				<-held
			}
		}
		q.callWithCredits(16, 1)
		require.Empty(t, q.newAnswers(), "the reply is made, and not posted")
		for xid := range uint32(5) {
			q.callWithCredits(2, 2+xid)
			assert.EqualValues(t, 2, q.onlyAnswer().Credit)
			assert.Equal(t, 16+extraRecvs, r.onlyServerConn().Recvs())
		}
		q.callWithCredits(3, 7)
		assert.EqualValues(t, 2, q.onlyAnswer().Credit, "a third grant waits for the end of the first")
		close(held)
		assert.EqualValues(t, 16, q.onlyAnswer().Credit, "the last grant that the requester sees")
		for range 16 + extraRecvs {
			q.callWithCredits(2, 8)
		}
		assert.Len(t, q.newAnswers(), 16+extraRecvs)
		require.Empty(t, q.closeErrors())
		assert.Equal(t, 2+extraRecvs, r.onlyServerConn().Recvs())
	})
}

// TestGrantKept checks that a requester that keeps to the last grant that it
// saw is never cut off, for any requests and with its calls in any order: each
// known credit has a receive (R8166-3.3.1-6, R8166-3.3.1-2).
func TestGrantKept(t *testing.T) {
	random := rand.New(rand.NewPCG(8166, 331))
	var mu sync.Mutex
	var doors []chan struct{}
	slow := serviceFunc(func(ctx context.Context, req *oncrpc.Request, rep *oncrpc.Reply) bool {
		door := make(chan struct{})
		mu.Lock()
		doors = append(doors, door)
		mu.Unlock()
		<-door
		return null(ctx, req, rep)
	})
	withServer(t, &Server{Handler: slow, Credits: 24}, func(t *testing.T, r *testServer) {
		q := r.dialLinux()
		granted, open := 1, func() { // lets one call be answered
			mu.Lock()
			defer mu.Unlock()
			i := random.IntN(len(doors))
			close(doors[i])
			doors[i] = doors[len(doors)-1]
			doors = doors[:len(doors)-1]
		}
		for round := range 2000 {
			asked := random.Uint32N(1 << random.IntN(7))
			for len(doors) < granted && random.IntN(4) > 0 {
				q.callWithCredits(asked, uint32(round))
				synctest.Wait()
			}
			for len(doors) > 0 && random.IntN(3) > 0 {
				open()
			}
			for _, a := range q.newAnswers() {
				granted = int(a.Credit)
			}
			if !assert.GreaterOrEqual(t, r.onlyServerConn().Recvs()+len(doors), granted+extraRecvs, "round %d", round) {
				break
			}
		}
		assert.Empty(t, q.closeErrors())
		for len(doors) > 0 {
			open()
		}
	})
}

// TestGrantPressed checks that, if all calls take more than half of MaxInline,
// each connection is granted its fair share, and all that it requests when they
// take less again.
func TestGrantPressed(t *testing.T) {
	g := new(gate)
	withServer(t, &Server{Handler: g, MaxInline: minMaxInline, Credits: maxCredits}, func(t *testing.T, r *testServer) {
		g.open = make(chan struct{})
		hog, modest := r.dialFrom(1), r.dialFrom(2)
		refused := func() uint32 { // not served, and so answered at once
			modest.sendCall(newNoMsg(chunks.Lists{}), nil)
			return modest.onlyAnswer().Credit
		}
		const one = callSize + 512 + 4096
		for range minMaxInline/2/one - 1 { // and the rejected call
			hog.sendCall(newMsg(chunks.Lists{}), rpcCall(testXID, ""))
		}
		synctest.Wait()
		assert.EqualValues(t, 128, refused(), "half of it")
		hog.sendCall(newMsg(chunks.Lists{}), rpcCall(testXID, ""))
		synctest.Wait()
		const fair = minMaxInline/2/(callSize+2*4096) - extraRecvs
		assert.EqualValues(t, fair, refused())
		others := []*requester{r.dialFrom(3), r.dialFrom(4)}
		assert.EqualValues(t, (fair+extraRecvs)/2-extraRecvs, refused(), "of four connections")
		for range 40 {
			others = append(others, r.dialFrom(5))
		}
		assert.EqualValues(t, 1, refused(), "and never none: R8166-3.3.1-2")
		for _, q := range others {
			require.NoError(t, q.Close())
		}
		synctest.Wait()
		assert.EqualValues(t, fair, refused())
		close(g.open)
		hog.newAnswers()
		assert.EqualValues(t, 128, refused())
		assert.Empty(t, hog.closeErrors())
	})
}

// TestReceiveBeforeReply checks that a call's receive is posted again before
// its reply can arrive, however the call ends (R8166-3.3.1-6).
func TestReceiveBeforeReply(t *testing.T) {
	var p tapListener
	withTappedServer(t, &Server{Handler: fixedResults("", patternBytes(5000), ""), Credits: 2}, &p, func(t *testing.T, r *testServer) {
		q := r.dialLinux()
		posted := r.onlyServerConn().Recvs()
		assert.Equal(t, 2+extraRecvs, posted)
		write, _ := q.writeChunk(5000)
		var l chunks.Lists
		l.AddWrite(write)
		q.sendCall(newMsg(l), rpcCall(testXID, ""))
		q.sendCall(newMsg(chunks.Lists{}), rpcCall(testXID, "")) // no space for the reply: ERR_CHUNK
		q.sendCall(newMsg(chunks.Lists{}), rpcCall(testXID+1, ""))
		q.sendCall(newNoMsg(chunks.Lists{}), nil)
		require.Len(t, q.newAnswers(), 4)
		assert.Equal(t, posted, r.onlyServerConn().Recvs())
		for _, used := range p.recvs {
			assert.Less(t, used, 4, "a receive is posted again before each answer")
		}
		assert.Zero(t, p.recvs[3])
	})
}

// TestOverrun checks that as many calls as are granted run at once, and some
// more for a peer that counts differently. Beyond that the provider ends this
// connection only, also after the grant has shrunk.
func TestOverrun(t *testing.T) {
	for name, asked := range map[string]int{"at first": 128, "smaller": 4} {
		t.Run(name, func(t *testing.T) {
			g := new(gate)
			withServer(t, &Server{Handler: g, Credits: 16}, func(t *testing.T, r *testServer) {
				q, other := r.dialFrom(1), r.dialFrom(2)
				g.open = make(chan struct{})
				close(g.open)
				for range 16 {
					q.callWithCredits(uint32(asked), testXID)
					require.EqualValues(t, min(asked, 16), q.onlyAnswer().Credit)
				}
				g.open, g.serving = make(chan struct{}), 0
				takes := min(asked, 16) + extraRecvs
				for range takes {
					q.callWithCredits(uint32(asked), testXID)
				}
				assert.Equal(t, takes, g.servingCount())
				require.Empty(t, q.closeErrors())
				other.callWithCredits(1, testXID)
				q.callWithCredits(uint32(asked), testXID)
				assert.Empty(t, q.newAnswers())
				require.Len(t, q.closeErrors(), 1)
				assert.ErrorIs(t, q.closeErrors()[0], rdmatest.ErrNoRecv)
				close(g.open)
				assert.EqualValues(t, testXID, other.onlyAnswer().XID)
			})
		})
	}
}

// TestRepliesNotTaken checks that a peer which sends calls and takes no replies
// gets no more receives when twice its grant is in flight: the replies cannot
// pile up.
func TestRepliesNotTaken(t *testing.T) {
	withServer(t, &Server{Handler: null, Credits: 4}, func(t *testing.T, r *testServer) {
		q := r.dialLinux()
		resume := q.Pause()
		sent := 0
		for range 1000 {
			if r.onlyServerConn().Recvs() == 0 {
				break
			}
			q.sendCall(newMsg(chunks.Lists{}), rpcCall(testXID, ""))
			sent++
			assert.Empty(t, q.newAnswers())
		}
		// Frames that the provider has in flight count as sent.
		assert.Less(t, sent, 60)
		assert.Zero(t, r.onlyServerConn().Recvs())

		resume()
		assert.Len(t, q.newAnswers(), sent, "no loss")
		assert.Equal(t, 4+extraRecvs, r.onlyServerConn().Recvs(), "reduced credits are restored")
	})
}
