package iwarp

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/rdmap"
)

// runAsync runs f and returns a channel that is closed when f has returned.
func runAsync(f func()) <-chan struct{} {
	c := make(chan struct{})
	go func() {
		defer close(c)
		f()
	}()
	return c
}

// requireSoon checks that c is closed soon.
func requireSoon(t testing.TB, c <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(testTimeout):
		require.FailNow(t, "did not happen: "+what)
	}
}

// TestPinWhileDeregisterWaits checks that a Deregister which waits for one
// segment does not block the reader, which may already have the next segment.
func TestPinWhileDeregisterWaits(t *testing.T) {
	checkLeaks(t)
	e, _ := connectRaw(t, rawOptions{})
	reg, err := e.Register(make([]byte, 8), rdma.RemoteRead)
	require.NoError(t, err)
	r := reg.(*region)
	_, ok := r.pin()
	require.True(t, ok)
	gone := runAsync(r.Deregister)
	require.Eventually(t, func() bool { return testDevice.findRegion(r.stag) == nil }, testTimeout, time.Millisecond)
	time.Sleep(10 * time.Millisecond) // Deregister waits now
	requireSoon(t, runAsync(func() {
		_, ok := r.pin()
		assert.False(t, ok)
	}), "pin")
	select {
	case <-gone:
		assert.Fail(t, "Deregister did not wait")
	default:
	}
	r.unpin()
	requireSoon(t, gone, "Deregister")
}

// TestDeregisterWhileTerminateOvertakes checks that a batch's data from a
// region stays unchanged until the batch is written, even if a Terminate cuts
// the message short.
func TestDeregisterWhileTerminateOvertakes(t *testing.T) {
	checkLeaks(t)
	e, p := connectRaw(t, rawOptions{pipe: true})
	mem := patternBytes(4 << 20)
	want := patternBytes(len(mem))
	r, err := e.Register(mem, rdma.RemoteRead)
	require.NoError(t, err)
	p.sendSegments(requestSeg(1, rdmap.ReadRequest{SinkSTag: 7, Size: uint32(len(mem)), SourceSTag: r.STag()}))
	first := p.readBytes(1) // the first batch is being written
	p.sendSegments(sendSeg(true, 1, 0, nil))
	require.Eventually(t, func() bool {
		e.tx.mu.Lock()
		defer e.tx.mu.Unlock()
		return e.tx.terminate != nil
	}, testTimeout, time.Millisecond)
	gone := runAsync(func() {
		r.Deregister()
		clear(mem)
	})
	select {
	case <-gone:
	case <-time.After(20 * time.Millisecond):
	}
	n := int(first[0])<<8 | int(p.readBytes(1)[0])
	at := 0
	for segment := p.readBytes(n); ; segment = p.readSegment() {
		if len(first) == 1 { // what follows in the FPDU whose length was read above
			p.readBytes(len(frameFPDU(false, segment)) - 2 - n)
			first = nil
		}
		if segment[0]&0x80 == 0 { // R5040-7.1-2-2: the Terminate is the next message
			parseTerminate(t, segment)
			break
		}
		require.Equal(t, want[at:][:len(segment)-14], segment[14:])
		at += len(segment) - 14
	}
	require.NotZero(t, at)
	require.Less(t, at, len(mem))
	p.expectEOF()
	requireSoon(t, gone, "Deregister")
	e.inbox.closeError(t)
}
