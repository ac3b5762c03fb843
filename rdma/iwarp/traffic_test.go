package iwarp

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/rdma"
)

// TestTraffic checks that both ends count moved bytes, including an RDMA
// Write's bytes, which the upper layer never sees.
func TestTraffic(t *testing.T) {
	checkLeaks(t)
	const n = 1 << 20
	a, b := connectPair(t, pairOptions{})
	sendFirst(t, a, b)
	reg, err := b.Register(make([]byte, n), rdma.RemoteWrite)
	require.NoError(t, err)
	inBefore, _ := b.Traffic()
	_, outBefore := a.Traffic()
	done := make(completionWaiter, 1)
	require.NoError(t, a.Post(rdma.WR{Op: rdma.OpWrite, Data: [][]byte{make([]byte, n)}, Remote: rdma.Remote{STag: reg.STag(), TO: reg.TO()}, Done: done}))
	require.NoError(t, done.wait(t).Err)
	assert.Eventually(t, func() bool {
		in, _ := b.Traffic()
		_, out := a.Traffic()
		return in >= inBefore+n && out >= outBefore+n
	}, 10*time.Second, time.Millisecond)
	reg.Deregister()
}

// TestTrafficUnknown checks that Traffic returns zeros over a net.Conn whose bytes are not counted.
func TestTrafficUnknown(t *testing.T) {
	checkLeaks(t)
	a, b := connectPair(t, pairOptions{pipe: true})
	sendFirst(t, a, b)
	in, out := a.Traffic()
	assert.Zero(t, in)
	assert.Zero(t, out)
}
