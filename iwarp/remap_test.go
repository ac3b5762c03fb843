package iwarp

import (
	"bytes"
	"hash/crc32"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/rdma"
)

// The memory behind an STag is exchanged while the peer writes to it: what was
// there is not touched any more, and the connection lives.
func TestRedirectWrites(t *testing.T) {
	for name, o := range transports {
		t.Run(name, func(t *testing.T) {
			world(t)
			a, b := pair(t, o)
			mem, instead := make([]byte, 1<<20), make([]byte, 1<<20)
			reg, err := b.Register(mem, rdma.RemoteWrite)
			require.NoError(t, err)
			var stop atomic.Bool
			under := make(chan struct{}, 1000)
			writer := done(func() {
				for i := byte(1); !stop.Load(); i++ {
					src, done := bytes.Repeat([]byte{i}, len(mem)), make(waiter, 1)
					err := a.Post(rdma.WR{Op: rdma.OpWrite, Data: [][]byte{src}, Remote: rdma.Remote{STag: reg.STag()}, Done: done})
					if !assert.NoError(t, err) || !assert.NoError(t, (<-done).Err) {
						return
					}
					select {
					case under <- struct{}{}:
					default:
					}
				}
			})
			<-under
			reg.(rdma.Remapper).Remap(instead)
			sum := crc32.ChecksumIEEE(mem) // the race detector looks on
			for len(under) > 0 {
				<-under
			}
			<-under
			<-under // this one began behind it
			stop.Store(true)
			within(t, writer, "the writer's end")
			require.NoError(t, a.Post(rdma.WR{Op: rdma.OpSend}))
			b.in.next(t) // and what was written before is there
			assert.Equal(t, sum, crc32.ChecksumIEEE(mem))
			reg.Deregister()
			assert.NotZero(t, instead[0])
			assert.Panics(t, func() { reg.(rdma.Remapper).Remap(mem[1:]) })
		})
	}
}

// A peer reads what is there now.
func TestRedirectReads(t *testing.T) {
	world(t)
	a, b := pair(t, options{})
	reg, err := b.Register([]byte("before"), rdma.RemoteRead)
	require.NoError(t, err)
	read := func() string {
		into, done := make([]byte, 6), make(waiter, 1)
		require.NoError(t, a.Post(rdma.WR{Op: rdma.OpRead, Data: [][]byte{into}, Remote: rdma.Remote{STag: reg.STag()}, Done: done}))
		require.NoError(t, (<-done).Err)
		return string(into)
	}
	assert.Equal(t, "before", read())
	reg.(rdma.Remapper).Remap([]byte("behind"))
	assert.Equal(t, "behind", read())
	reg.Deregister()
	reg.(rdma.Remapper).Remap([]byte("beyond")) // of use to nobody, and no harm
}

// The connections of a domain all see it, those that have seen the region before
// and those that have not.
func TestRedirectDomain(t *testing.T) {
	world(t)
	d := NewProtectionDomain()
	a, _ := member(t, d)
	b, _ := member(t, d)
	reg, err := d.Register([]byte("before"), rdma.RemoteRead)
	require.NoError(t, err)
	r := reg.(*region)
	known := r.on(a.Conn)
	reg.(rdma.Remapper).Remap([]byte("behind"))
	for _, v := range []*region{known, r.on(b.Conn)} {
		mem, ok := v.pin()
		assert.True(t, ok)
		assert.Equal(t, "behind", string(mem))
		v.unpin()
	}
	reg.Deregister()
}
