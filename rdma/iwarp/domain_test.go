package iwarp

import (
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/ddp"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/rdmap"
)

// connInDomain returns a Conn in the domain, connected to a raw peer.
func connInDomain(t testing.TB, d *ProtectionDomain) (endpoint, *rawPeer) {
	t.Helper()
	return connectRaw(t, rawOptions{recvs: 4, before: func(c *Conn) { c.domain = d }})
}

// TestProtectionDomain checks that the peers on all connections in a Protection
// Domain can reach its memory, and no other peer can (R5041-8.2-3, R5041-8.2-4,
// R5041-8.3-3-1, R5040-8.1-1, R5040-8.1.1-1-1, R5040-8.1.2-3-1, R5042-6.1.1-2).
func TestProtectionDomain(t *testing.T) {
	checkLeaks(t)
	d := testDevice.NewProtectionDomain()
	a, pa := connInDomain(t, d)
	b, pb := connInDomain(t, d)
	mem := make([]byte, 8)
	r, err := d.Register(mem, rdma.RemoteRead|rdma.RemoteWrite)
	require.NoError(t, err)
	pa.sendSegments(writeSeg(true, r.STag(), r.TO(), []byte("ab")), sendSeg(true, 1, 0, nil))
	a.inbox.nextMessage(t)
	pb.sendSegments(writeSeg(true, r.STag(), r.TO()+2, []byte("cd")), requestSeg(1, rdmap.ReadRequest{Size: 4, SourceSTag: r.STag()}))
	_, got := pb.readResponse()
	assert.Equal(t, "abcd", string(got))

	for name, other := range map[string]*ProtectionDomain{"of no domain": nil, "of another": testDevice.NewProtectionDomain()} {
		t.Run(name, func(t *testing.T) {
			for _, tt := range []struct {
				segment []byte
				want    error
			}{
				{writeSeg(true, r.STag(), 0, []byte("xx")), ddp.ErrSTagStream}, // R5041-8.2-1, R5041-8.3.1-1-1
				{requestSeg(1, rdmap.ReadRequest{Size: 4, SourceSTag: r.STag()}), rdmap.ErrSTagStream},
				{invalidateSeg(1, r.STag(), nil), rdmap.ErrCannotInvalidate},
			} {
				e, p := connInDomain(t, other)
				p.sendSegments(tt.segment)
				assert.ErrorIs(t, p.readTerminate().Cause, tt.want)
				require.ErrorIs(t, e.inbox.closeError(t), tt.want) // the ULP is informed
			}
		})
	}
	own, err := a.Register(mem, rdma.RemoteWrite) // R5041-8.2-2, R5041-8.3.1-2-1, R5041-8.3.2-3-1, R5040-8.1.1-2-1: for a single Stream, domain or not
	require.NoError(t, err)
	pb.sendSegments(writeSeg(true, own.STag(), 0, []byte("xx")))
	assert.ErrorIs(t, pb.readTerminate().Cause, ddp.ErrSTagStream)
	require.ErrorIs(t, b.inbox.closeError(t), ddp.ErrSTagStream)
	assert.Equal(t, "abcd", string(mem[:4]))

	pa.sendSegments(requestSeg(1, rdmap.ReadRequest{Size: 4, SourceSTag: r.STag()})) // the region survives b's end
	_, got = pa.readResponse()
	assert.Equal(t, "abcd", string(got))
	r.Deregister()
	r.Deregister()
	pa.sendSegments(writeSeg(true, r.STag(), 0, []byte("xx")))
	assert.ErrorIs(t, pa.readTerminate().Cause, ddp.ErrInvalidSTag)
	assert.Empty(t, d.regions)
}

// TestDomainInvalidate checks that no peer can invalidate shared memory by a
// Send (R5040-8.1.1-7-1).
func TestDomainInvalidate(t *testing.T) {
	checkLeaks(t)
	d := testDevice.NewProtectionDomain()
	a, pa := connInDomain(t, d)
	b, pb := connInDomain(t, d)
	r, err := d.Register(make([]byte, 8), rdma.RemoteWrite)
	require.NoError(t, err)
	pa.sendSegments(invalidateSeg(1, r.STag(), nil))
	assert.Equal(t, rdmap.ErrCannotInvalidate, pa.readTerminate().Cause)
	require.ErrorIs(t, a.inbox.closeError(t), rdmap.ErrCannotInvalidate)
	pb.sendSegments(writeSeg(true, r.STag(), 0, []byte{1}), sendSeg(true, 1, 0, nil))
	b.inbox.nextMessage(t)
	r.Deregister()
}

// TestDomainForgets checks that an ended connection leaves nothing behind.
func TestDomainForgets(t *testing.T) {
	checkLeaks(t)
	d := testDevice.NewProtectionDomain()
	r, err := d.Register(make([]byte, 8), rdma.RemoteWrite)
	require.NoError(t, err)
	for range 3 {
		e, p := connInDomain(t, d)
		p.sendSegments(writeSeg(true, r.STag(), 0, []byte{1}), sendSeg(true, 1, 0, nil))
		e.inbox.nextMessage(t)
		p.nc.Close()
		e.inbox.closeError(t)
		require.NoError(t, e.Close())
	}
	assert.Empty(t, r.(*region).views)
	r.Deregister()
}

// TestDomainDeregisterInTime checks that Deregister waits for all peers'
// segments, and that only the peer that delays it loses its connection.
func TestDomainDeregisterInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := testDevice.NewProtectionDomain()
		r, err := d.Register(make([]byte, 12), rdma.RemoteWrite)
		require.NoError(t, err)
		var ends [3]endpoint
		var peers [3]*rawPeer
		part := func(i int) []byte { return frameFPDU(false, writeSeg(true, r.STag(), uint64(4*i), []byte("data"))) }
		for i, n := range []int{len(part(0)), 18, 18} {
			a, b := net.Pipe()
			e := endpoint{inbox: newInbox()}
			e.Conn = testDevice.newConn(newSocket(halfPipe{a, make(chan struct{}), new(sync.Once)}), mpa.Params{}, mpa.Frame{}, rdma.ConnConfig{Handler: e.inbox}, false)
			e.domain = d
			e.startReader()
			ends[i], peers[i] = e, &rawPeer{t: t, nc: b}
			peers[i].writeBytes(part(i)[:n])
		}
		synctest.Wait()
		start := time.Now()
		gone := runAsync(r.Deregister)
		time.Sleep(revokeTimeout - time.Second)
		peers[1].writeBytes(part(1)[18:])
		<-gone
		assert.Equal(t, revokeTimeout, time.Since(start))
		assert.ErrorContains(t, ends[2].inbox.closeError(t), "revoked")
		for i, e := range ends {
			assert.Empty(t, e.inbox.closed)
			peers[i].nc.Close()
			require.NoError(t, e.Close())
		}
	})
}

// TestDomainDevice checks that a domain's Device adds its connections to the
// domain.
func TestDomainDevice(t *testing.T) {
	checkLeaks(t)
	mine, theirs := testDevice.NewProtectionDomain(), testDevice.NewProtectionDomain()
	a, b := connectPair(t, pairOptions{domains: [2]*ProtectionDomain{mine, theirs}})
	assert.Same(t, mine, a.domain)
	mem, done := make([]byte, 5), make(completionWaiter, 1)
	r, err := theirs.Register(mem, rdma.RemoteWrite)
	require.NoError(t, err)
	require.NoError(t, a.Post(
		rdma.WR{Op: rdma.OpWrite, Data: [][]byte{[]byte("hello")}, Remote: rdma.Remote{STag: r.STag()}},
		rdma.WR{Op: rdma.OpSend, Done: done},
	))
	require.NoError(t, done.wait(t).Err)
	b.inbox.nextMessage(t)
	assert.Equal(t, "hello", string(mem))
	r.Deregister()
}

// TestDomainPinTooLate checks that a segment whose region was found, but not
// pinned, before Deregister is refused.
func TestDomainPinTooLate(t *testing.T) {
	checkLeaks(t)
	d := testDevice.NewProtectionDomain()
	a, _ := connInDomain(t, d)
	b, _ := connInDomain(t, d)
	reg, err := d.Register(make([]byte, 8), rdma.RemoteWrite)
	require.NoError(t, err)
	r := reg.(*region)
	known := r.viewFor(a.Conn)
	_, ok := known.pin()
	require.True(t, ok)
	known.unpin()
	r.Deregister()
	for _, v := range []*region{known, r.viewFor(b.Conn)} {
		_, ok := v.pin()
		assert.False(t, ok)
	}
}
