package iwarp

import (
	"io"
	"net"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/mpa"
)

// prepareListener returns a listener and a configuration for Accept. The
// configuration's Prepare registers a region before the peer is answered and
// advertises it in the answer.
func prepareListener(t *testing.T, memory []byte) (*Listener, rdma.ConnConfig, *rdma.Region) {
	t.Helper()
	l, err := deviceWith(Config{ORD: 5, IRD: 7}).Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	var region rdma.Region
	return l, rdma.ConnConfig{Handler: newInbox(), PrivateData: []byte("not this"), Prepare: func(r rdma.Registrar) []byte {
		ird, ord := r.(rdma.ReadDepth).ReadDepth()
		assert.Equal(t, [2]int{3, 5}, [2]int{ird, ord}, "as both ends agreed")
		region, err = r.Register(memory, rdma.RemoteAtomic)
		assert.NoError(t, err)
		return []byte{byte(region.STag() >> 24), byte(region.STag() >> 16), byte(region.STag() >> 8), byte(region.STag())}
	}}, &region
}

// TestPrepare checks that memory registered before the peer is answered can be
// advertised in the answer, and that the peer can access it as soon as the
// answer arrives.
func TestPrepare(t *testing.T) {
	checkLeaks(t)
	memory := make([]byte, 8)
	l, cc, region := prepareListener(t, memory)
	accepted := make(chan rdma.Conn, 1)
	go func() {
		req, err := l.Accept(t.Context())
		if assert.NoError(t, err) {
			c, err := req.Accept(cc)
			assert.NoError(t, err)
			accepted <- c
		}
	}()
	c, err := deviceWith(Config{ORD: 3, IRD: 9}).Dial(t.Context(), l.Addr().String(), rdma.ConnConfig{Handler: newInbox()})
	require.NoError(t, err)
	p := c.PrivateData()
	require.Len(t, p, 4)
	stag := rdma.STag(p[0])<<24 | rdma.STag(p[1])<<16 | rdma.STag(p[2])<<8 | rdma.STag(p[3])
	assert.Equal(t, (*region).STag(), stag)
	done := make(completionWaiter, 1)
	require.NoError(t, c.Post(rdma.WR{Op: rdma.OpFetchAdd, Remote: rdma.Remote{STag: stag}, Atomic: rdma.Atomic{Operand: 7}, Done: done}))
	require.NoError(t, (<-done).Err)
	word, err := rdma.Word(memory, 0)
	require.NoError(t, err)
	assert.EqualValues(t, 7, word.Load())
	(<-accepted).Abort(nil)
	require.NoError(t, c.Close())
}

// TestPrepareInVain checks that if the answer cannot be sent, neither the
// connection nor its registered region remains.
func TestPrepareInVain(t *testing.T) {
	checkLeaks(t)
	l, cc, region := prepareListener(t, make([]byte, 8))
	nc, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	defer nc.Close()
	require.NoError(t, writeFrame(nc, mpa.NewRequest(Config{ORD: 3}.mpaLocal())))
	req, err := l.Accept(t.Context())
	require.NoError(t, err)
	prepare := cc.Prepare
	cc.Prepare = func(r rdma.Registrar) []byte {
		prepare(r)
		return make([]byte, mpa.MaxPrivateData+1)
	}
	_, err = req.Accept(cc)
	require.ErrorContains(t, err, "bytes of private data")
	assert.Nil(t, testDevice.findRegion((*region).STag()), "it is not valid any more")
	_, err = nc.Read(make([]byte, 1))
	assert.ErrorIs(t, err, io.EOF)
	(*region).Deregister()
}
