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

// TestRedirectWrites exchanges the memory behind an STag while the peer writes
// to it. It checks that the old memory is not touched afterwards, and that the
// connection survives.
func TestRedirectWrites(t *testing.T) {
	for name, o := range transports {
		t.Run(name, func(t *testing.T) {
			checkLeaks(t)
			a, b := connectPair(t, o)
			mem, instead := make([]byte, 1<<20), make([]byte, 1<<20)
			reg, err := b.Register(mem, rdma.RemoteWrite)
			require.NoError(t, err)
			var stop atomic.Bool
			under := make(chan struct{}, 1000)
			writer := runAsync(func() {
				for i := byte(1); !stop.Load(); i++ {
					src, done := bytes.Repeat([]byte{i}, len(mem)), make(completionWaiter, 1)
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
			sum := crc32.ChecksumIEEE(mem) // the race detector checks this read
			for len(under) > 0 {
				<-under
			}
			<-under
			<-under // this Write began after Remap
			stop.Store(true)
			requireSoon(t, writer, "the writer's end")
			require.NoError(t, a.Post(rdma.WR{Op: rdma.OpSend}))
			b.inbox.nextMessage(t) // all earlier Writes are placed now
			assert.Equal(t, sum, crc32.ChecksumIEEE(mem))
			reg.Deregister()
			assert.NotZero(t, instead[0])
			assert.Panics(t, func() { reg.(rdma.Remapper).Remap(mem[1:]) })
		})
	}
}

// TestRedirectReads checks that a peer reads the current memory.
func TestRedirectReads(t *testing.T) {
	checkLeaks(t)
	a, b := connectPair(t, pairOptions{})
	reg, err := b.Register([]byte("before"), rdma.RemoteRead)
	require.NoError(t, err)
	read := func() string {
		into, done := make([]byte, 6), make(completionWaiter, 1)
		require.NoError(t, a.Post(rdma.WR{Op: rdma.OpRead, Data: [][]byte{into}, Remote: rdma.Remote{STag: reg.STag()}, Done: done}))
		require.NoError(t, (<-done).Err)
		return string(into)
	}
	assert.Equal(t, "before", read())
	reg.(rdma.Remapper).Remap([]byte("behind"))
	assert.Equal(t, "behind", read())
	reg.Deregister()
	reg.(rdma.Remapper).Remap([]byte("beyond")) // no effect after Deregister
}

// TestRedirectDomain checks that Remap takes effect for all connections in a
// domain, whether or not a connection has used the region before.
func TestRedirectDomain(t *testing.T) {
	checkLeaks(t)
	d := testDevice.NewProtectionDomain()
	a, _ := connInDomain(t, d)
	b, _ := connInDomain(t, d)
	reg, err := d.Register([]byte("before"), rdma.RemoteRead)
	require.NoError(t, err)
	r := reg.(*region)
	known := r.viewFor(a.Conn)
	reg.(rdma.Remapper).Remap([]byte("behind"))
	for _, v := range []*region{known, r.viewFor(b.Conn)} {
		mem, ok := v.pin()
		assert.True(t, ok)
		assert.Equal(t, "behind", string(mem))
		v.unpin()
	}
	reg.Deregister()
}
