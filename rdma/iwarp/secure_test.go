package iwarp

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/ddp"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/rdmap"
)

// anyAccess is every right that a peer can be given.
const anyAccess = rdma.RemoteRead | rdma.RemoteWrite | rdma.RemoteAtomic

// A stagUse is an attempt by a peer to use an STag, with the errors expected if the
// STag belongs to another Stream (foreign) or is no longer valid (invalid).
type stagUse struct {
	segment          []byte
	foreign, invalid error
}

// stagUses returns all uses of s for a peer that has sent that many Sends.
func stagUses(s rdma.STag, sends uint32) []stagUse {
	return []stagUse{
		{writeSeg(true, s, 0, []byte{1}), ddp.ErrSTagStream, ddp.ErrInvalidSTag},
		{requestSeg(1, rdmap.ReadRequest{Size: 1, SourceSTag: s}), rdmap.ErrSTagStream, rdmap.ErrInvalidSTag},
		{atomicSeg(1, addRequest(s, 0, 1)), rdmap.ErrSTagStream, rdmap.ErrInvalidSTag},
		{invalidateSeg(1+sends, s, nil), rdmap.ErrCannotInvalidate, rdmap.ErrCannotInvalidate},
	}
}

// requireRejected checks that segment, sent by a separate peer, causes the error want.
func requireRejected(t *testing.T, segment []byte, want error) {
	t.Helper()
	e, p := connectRaw(t, rawOptions{recvs: 1})
	p.sendSegments(segment)
	assert.ErrorIs(t, p.readTerminate().Cause, want)
	require.ErrorIs(t, e.inbox.closeError(t), want)
}

// TestStreamsAlone checks that memory registered with one Stream is
// inaccessible to all others: Streams do not trust one another without the
// upper layer's permission (R5042-3-2, R5042-6.1.1-1, R5042-6.1.1-3,
// R5042-6.4.5-1, R8166-8.1.1-1).
func TestStreamsAlone(t *testing.T) {
	checkLeaks(t)
	own, peer := connectRaw(t, rawOptions{recvs: 1})
	mem := []byte("unchanged")
	r, err := own.Register(mem, anyAccess)
	require.NoError(t, err)
	for _, use := range stagUses(r.STag(), 0) {
		requireRejected(t, use.segment, use.foreign)
	}
	peer.sendSegments(writeSeg(true, r.STag(), 2, []byte("settled")), invalidateSeg(1, r.STag(), nil))
	own.inbox.nextMessage(t)
	assert.Equal(t, "unsettled", string(mem))
}

// TestStaleSTags checks that an STag gives no access once its owner, its peer,
// or its Stream's end has revoked it (R5042-6.2.2-2).
func TestStaleSTags(t *testing.T) {
	for name, tt := range map[string]struct {
		sends uint32 // Sends from the peer so far
		end   func(t *testing.T, e endpoint, p *rawPeer, r rdma.Region)
	}{
		"deregistered": {0, func(_ *testing.T, _ endpoint, _ *rawPeer, r rdma.Region) { r.Deregister() }},
		"invalidated": {1, func(t *testing.T, e endpoint, p *rawPeer, r rdma.Region) {
			p.sendSegments(invalidateSeg(1, r.STag(), nil))
			e.inbox.nextMessage(t)
		}},
		"closed": {0, func(t *testing.T, e endpoint, p *rawPeer, _ rdma.Region) {
			p.nc.Close()
			require.NoError(t, e.Close())
		}},
		"cut off": {0, func(t *testing.T, e endpoint, _ *rawPeer, _ rdma.Region) {
			e.Abort(nil)
			require.NoError(t, e.Close())
		}},
	} {
		t.Run(name, func(t *testing.T) {
			checkLeaks(t)
			for i := range stagUses(0, 0) {
				e, p := connectRaw(t, rawOptions{recvs: 2})
				mem := []byte("unchanged")
				r, err := e.Register(mem, anyAccess)
				require.NoError(t, err)
				tt.end(t, e, p, r)
				requireRejected(t, stagUses(r.STag(), 0)[i].segment, stagUses(0, 0)[i].invalid) // by others
				if name == "deregistered" || name == "invalidated" {                            // by its own peer
					use := stagUses(r.STag(), tt.sends)[i]
					p.sendSegments(use.segment)
					assert.ErrorIs(t, p.readTerminate().Cause, use.invalid)
					e.inbox.closeError(t)
				}
				assert.Equal(t, "unchanged", string(mem))
			}
		})
	}
}

// TestReadsOfOthers checks that a Stream which exhausts its own Read Requests
// (up to the IRD that this end announced) takes none from other Streams
// (R5042-6.4.3.3-1, R5042-6.4.3.3-2, R5042-7.2-1, R5042-App.A-3).
func TestReadsOfOthers(t *testing.T) {
	checkLeaks(t)
	const ird = 2
	mem := make([]byte, 4<<20)
	greedy, p := connectRaw(t, rawOptions{pipe: true, ird: ird})
	r, err := greedy.Register(mem, rdma.RemoteRead)
	require.NoError(t, err)
	for i := range uint32(ird) { // the peer does not read the responses
		p.sendSegments(requestSeg(1+i, rdmap.ReadRequest{Size: uint32(len(mem)), SourceSTag: r.STag()}))
	}
	other, q := connectRaw(t, rawOptions{ird: ird})
	s, err := other.Register(mem, rdma.RemoteRead)
	require.NoError(t, err)
	for i := range uint32(10 * ird) {
		q.sendSegments(requestSeg(1+i, rdmap.ReadRequest{Size: 4, SourceSTag: s.STag()}))
		q.readResponse()
	}
	p.sendSegments(requestSeg(1+ird, rdmap.ReadRequest{Size: 4, SourceSTag: r.STag()})) // one too many
	requireFault(t, greedy.inbox.closeError(t), false, rdmap.Error{Layer: rdmap.LayerDDP, Type: 2, Code: 2})
	q.sendSegments(requestSeg(1+10*ird, rdmap.ReadRequest{Size: 4, SourceSTag: s.STag()}))
	q.readResponse()
}

// TestOverrunAlone checks that a completion queue which overruns loses only its
// own completions. The Stream, other Streams and their queues are unaffected,
// because each work request names its own queue (R5042-6.4.3.2-1,
// R5042-6.4.6-1, R5042-7.1-1).
func TestOverrunAlone(t *testing.T) {
	checkLeaks(t)
	small, large := rdma.NewCompletionQueue(1), rdma.NewCompletionQueue(100)
	a, p := connectRaw(t, rawOptions{initiator: true})
	b, q := connectRaw(t, rawOptions{initiator: true})
	for range 10 {
		require.NoError(t, a.Post(rdma.WR{Op: rdma.OpSend, Done: small}))
		require.NoError(t, b.Post(rdma.WR{Op: rdma.OpSend, Done: large}))
	}
	require.NoError(t, a.Post(rdma.WR{Op: rdma.OpSend, Done: large}))
	for range 10 {
		p.readSegment()
		q.readSegment()
	}
	p.readSegment()
	for range 11 {
		c, err := large.Wait(t.Context())
		require.NoError(t, err)
		require.NoError(t, c.Err)
	}
	_, err := small.Wait(t.Context())
	require.NoError(t, err)
	_, err = small.Wait(t.Context())
	require.ErrorIs(t, err, rdma.ErrOverrun)
	assert.Empty(t, a.inbox.closed)
	assert.Empty(t, b.inbox.closed)
}
