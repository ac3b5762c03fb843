package iwarp

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/iwarp/rdmap"
	"github.com/nfsrdma/nfsrdma/rdma"
)

// done runs f and returns a channel that is closed when f has returned.
func done(f func()) <-chan struct{} {
	c := make(chan struct{})
	go func() {
		defer close(c)
		f()
	}()
	return c
}

// within checks that c is closed soon.
func within(t testing.TB, c <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(patience):
		require.FailNow(t, "did not happen: "+what)
	}
}

// TestPinWhileDeregisterWaits checks that a Deregister which waits for one
// segment does not block the reader, which may already have the next segment.
func TestPinWhileDeregisterWaits(t *testing.T) {
	world(t)
	e, _ := againstRaw(t, raw{})
	reg, err := e.Register(make([]byte, 8), rdma.RemoteRead)
	require.NoError(t, err)
	r := reg.(*region)
	_, ok := r.pin()
	require.True(t, ok)
	gone := done(r.Deregister)
	require.Eventually(t, func() bool { return lab.find(r.stag) == nil }, patience, time.Millisecond)
	time.Sleep(10 * time.Millisecond) // Deregister waits now
	within(t, done(func() {
		_, ok := r.pin()
		assert.False(t, ok)
	}), "pin")
	select {
	case <-gone:
		assert.Fail(t, "Deregister did not wait")
	default:
	}
	r.unpin()
	within(t, gone, "Deregister")
}

// TestDeregisterWhileTerminateOvertakes checks that a batch's data from a
// region stays unchanged until the batch is written, even if a Terminate cuts
// the message short.
func TestDeregisterWhileTerminateOvertakes(t *testing.T) {
	world(t)
	e, p := againstRaw(t, raw{pipe: true})
	mem := pattern(4 << 20)
	want := pattern(len(mem))
	r, err := e.Register(mem, rdma.RemoteRead)
	require.NoError(t, err)
	p.send(requestSeg(1, rdmap.ReadRequest{SinkSTag: 7, Size: uint32(len(mem)), SourceSTag: r.STag()}))
	first := p.read(1) // the first batch is being written
	p.send(sendSeg(true, 1, 0, nil))
	require.Eventually(t, func() bool {
		e.tx.mu.Lock()
		defer e.tx.mu.Unlock()
		return e.tx.terminate != nil
	}, patience, time.Millisecond)
	gone := done(func() {
		r.Deregister()
		clear(mem)
	})
	select {
	case <-gone:
	case <-time.After(20 * time.Millisecond):
	}
	n := int(first[0])<<8 | int(p.read(1)[0])
	at := 0
	for segment := p.read(n); ; segment = p.segment() {
		if len(first) == 1 { // the rest of the FPDU whose length was read above
			p.read(len(fpdu(false, segment)) - 2 - n)
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
	p.eof()
	within(t, gone, "Deregister")
	e.in.end(t)
}
