package iwarp

import (
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/iwarp/ddp"
	"github.com/nfsrdma/nfsrdma/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/iwarp/rdmap"
	"github.com/nfsrdma/nfsrdma/rdma"
)

// member returns a Conn of the domain, connected to a raw peer.
func member(t testing.TB, d *ProtectionDomain) (endpoint, *rawPeer) {
	t.Helper()
	return againstRaw(t, raw{recvs: 4, before: func(c *Conn) { c.domain = d }})
}

// TestProtectionDomain checks that the peers of all connections of a Protection
// Domain can reach its memory, and no other peer can (R5041-8.2-3, R5041-8.2-4,
// R5041-8.3-3-1, R5040-8.1-1, R5040-8.1.1-1-1, R5040-8.1.2-3-1, R5042-6.1.1-2).
func TestProtectionDomain(t *testing.T) {
	world(t)
	d := lab.NewProtectionDomain()
	a, pa := member(t, d)
	b, pb := member(t, d)
	mem := make([]byte, 8)
	r, err := d.Register(mem, rdma.RemoteRead|rdma.RemoteWrite)
	require.NoError(t, err)
	pa.send(writeSeg(true, r.STag(), r.TO(), []byte("ab")), sendSeg(true, 1, 0, nil))
	a.in.next(t)
	pb.send(writeSeg(true, r.STag(), r.TO()+2, []byte("cd")), requestSeg(1, rdmap.ReadRequest{Size: 4, SourceSTag: r.STag()}))
	_, got := pb.response()
	assert.Equal(t, "abcd", string(got))

	for name, other := range map[string]*ProtectionDomain{"of no domain": nil, "of another": lab.NewProtectionDomain()} {
		t.Run(name, func(t *testing.T) {
			for _, tt := range []struct {
				segment []byte
				want    error
			}{
				{writeSeg(true, r.STag(), 0, []byte("xx")), ddp.ErrSTagStream}, // R5041-8.2-1, R5041-8.3.1-1-1
				{requestSeg(1, rdmap.ReadRequest{Size: 4, SourceSTag: r.STag()}), rdmap.ErrSTagStream},
				{invalidateSeg(1, r.STag(), nil), rdmap.ErrCannotInvalidate},
			} {
				e, p := member(t, other)
				p.send(tt.segment)
				assert.ErrorIs(t, p.terminate().Cause, tt.want)
				require.ErrorIs(t, e.in.end(t), tt.want) // the ULP is informed
			}
		})
	}
	own, err := a.Register(mem, rdma.RemoteWrite) // R5041-8.2-2, R5041-8.3.1-2-1, R5041-8.3.2-3-1, R5040-8.1.1-2-1: for a single Stream, domain or not
	require.NoError(t, err)
	pb.send(writeSeg(true, own.STag(), 0, []byte("xx")))
	assert.ErrorIs(t, pb.terminate().Cause, ddp.ErrSTagStream)
	require.ErrorIs(t, b.in.end(t), ddp.ErrSTagStream)
	assert.Equal(t, "abcd", string(mem[:4]))

	pa.send(requestSeg(1, rdmap.ReadRequest{Size: 4, SourceSTag: r.STag()})) // the region survives the end of b
	_, got = pa.response()
	assert.Equal(t, "abcd", string(got))
	r.Deregister()
	r.Deregister()
	pa.send(writeSeg(true, r.STag(), 0, []byte("xx")))
	assert.ErrorIs(t, pa.terminate().Cause, ddp.ErrInvalidSTag)
	assert.Empty(t, d.regions)
}

// TestDomainInvalidate checks that no peer can invalidate shared memory by a
// Send (R5040-8.1.1-7-1).
func TestDomainInvalidate(t *testing.T) {
	world(t)
	d := lab.NewProtectionDomain()
	a, pa := member(t, d)
	b, pb := member(t, d)
	r, err := d.Register(make([]byte, 8), rdma.RemoteWrite)
	require.NoError(t, err)
	pa.send(invalidateSeg(1, r.STag(), nil))
	assert.Equal(t, rdmap.ErrCannotInvalidate, pa.terminate().Cause)
	require.ErrorIs(t, a.in.end(t), rdmap.ErrCannotInvalidate)
	pb.send(writeSeg(true, r.STag(), 0, []byte{1}), sendSeg(true, 1, 0, nil))
	b.in.next(t)
	r.Deregister()
}

// TestDomainForgets checks that an ended connection leaves nothing behind.
func TestDomainForgets(t *testing.T) {
	world(t)
	d := lab.NewProtectionDomain()
	r, err := d.Register(make([]byte, 8), rdma.RemoteWrite)
	require.NoError(t, err)
	for range 3 {
		e, p := member(t, d)
		p.send(writeSeg(true, r.STag(), 0, []byte{1}), sendSeg(true, 1, 0, nil))
		e.in.next(t)
		p.nc.Close()
		e.in.end(t)
		require.NoError(t, e.Close())
	}
	assert.Empty(t, r.(*region).views)
	r.Deregister()
}

// TestDomainDeregisterInTime checks that Deregister waits for the segments of
// all peers, and that only the peer that delays it loses its connection.
func TestDomainDeregisterInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := lab.NewProtectionDomain()
		r, err := d.Register(make([]byte, 12), rdma.RemoteWrite)
		require.NoError(t, err)
		var ends [3]endpoint
		var peers [3]*rawPeer
		part := func(i int) []byte { return fpdu(false, writeSeg(true, r.STag(), uint64(4*i), []byte("data"))) }
		for i, n := range []int{len(part(0)), 18, 18} {
			a, b := net.Pipe()
			e := endpoint{in: newInbox()}
			e.Conn = lab.newConn(newSocket(halfPipe{a, make(chan struct{})}), mpa.Params{}, mpa.Frame{}, rdma.ConnConfig{Handler: e.in}, false)
			e.domain = d
			e.start()
			ends[i], peers[i] = e, &rawPeer{t: t, nc: b}
			peers[i].write(part(i)[:n])
		}
		synctest.Wait()
		start := time.Now()
		gone := done(r.Deregister)
		time.Sleep(revokeTimeout - time.Second)
		peers[1].write(part(1)[18:])
		<-gone
		assert.Equal(t, revokeTimeout, time.Since(start))
		assert.ErrorContains(t, ends[2].in.end(t), "revoked")
		for i, e := range ends {
			assert.Empty(t, e.in.closed)
			peers[i].nc.Close()
			require.NoError(t, e.Close())
		}
	})
}

// TestDomainDevice checks that the connections of a domain's Device join the
// domain.
func TestDomainDevice(t *testing.T) {
	world(t)
	mine, theirs := lab.NewProtectionDomain(), lab.NewProtectionDomain()
	a, b := pair(t, options{domains: [2]*ProtectionDomain{mine, theirs}})
	assert.Same(t, mine, a.domain)
	mem, done := make([]byte, 5), make(waiter, 1)
	r, err := theirs.Register(mem, rdma.RemoteWrite)
	require.NoError(t, err)
	require.NoError(t, a.Post(
		rdma.WR{Op: rdma.OpWrite, Data: [][]byte{[]byte("hello")}, Remote: rdma.Remote{STag: r.STag()}},
		rdma.WR{Op: rdma.OpSend, Done: done},
	))
	require.NoError(t, done.wait(t).Err)
	b.in.next(t)
	assert.Equal(t, "hello", string(mem))
	r.Deregister()
}

// TestDomainPinTooLate checks that a segment whose region was found, but not
// pinned, before Deregister is refused.
func TestDomainPinTooLate(t *testing.T) {
	world(t)
	d := lab.NewProtectionDomain()
	a, _ := member(t, d)
	b, _ := member(t, d)
	reg, err := d.Register(make([]byte, 8), rdma.RemoteWrite)
	require.NoError(t, err)
	r := reg.(*region)
	known := r.on(a.Conn)
	_, ok := known.pin()
	require.True(t, ok)
	known.unpin()
	r.Deregister()
	for _, v := range []*region{known, r.on(b.Conn)} {
		_, ok := v.pin()
		assert.False(t, ok)
	}
}
