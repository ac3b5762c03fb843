package iwarp

import (
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"runtime/metrics"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/buf"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/mpa"
)

// Bounds for a connection under FuzzPeer.
const (
	fuzzRecvs    = 12
	fuzzRecvSize = 40_000
	fuzzRegion   = 40_000 // bytes
	fuzzDepth    = 3      // IRD and ORD
	fuzzScript   = 400    // bytes
	fuzzPieces   = 2000   // maximum number of pieces that the peer sends
	fuzzHeap     = 16 << 20
)

// Bits in FuzzPeer's mode; the higher bits select how finely the bytes are cut.
const (
	modeCRC       = 1 << iota
	modeInitiator // the Conn is the initiator
	modeTCP       // TCP and not a pipe
	modeLazy      // the peer reads only after it has written everything
	modeCut       = iota
)

// FuzzPeer runs a connection in full operation, where both ends follow a
// script. The peer's messages are valid until the script changes a message.
// Until then every byte must be in its place, and each message must be
// delivered, as in the connection's model. In every case the connection ends
// when the stream does, without panic. All posted requests then have completed
// once and in order, all buffers, STags and goroutines are released, and no
// more memory was taken than the sent data accounts for.
func FuzzPeer(f *testing.F) {
	for mode := range 16 {
		for _, script := range fuzzScripts {
			f.Add(byte(mode), []byte(script))
			f.Add(byte(mode|5<<modeCut), []byte(script))
		}
	}
	f.Fuzz(func(t *testing.T, mode byte, script []byte) {
		runScript(t, mode, script[:min(len(script), fuzzScript)])
	})
}

// runScript plays a script and checks the result.
func runScript(t *testing.T, mode byte, script []byte) {
	out, routines, heap := buf.Default.Out(), runtime.NumGoroutine(), totalAllocated()
	a, b := ncPair(t, mode&modeTCP == 0)
	h := &scriptHandler{closed: make(chan error, 1)}
	params := mpa.Params{Rev: mpa.Rev2, CRC: mode&modeCRC != 0, IRD: fuzzDepth, ORD: fuzzDepth}
	cc := rdma.ConnConfig{Handler: h, Recvs: fuzzRecvs, RecvSize: fuzzRecvSize, Immediate: true}
	c := testDevice.newConn(newSocket(a), params, mpa.Frame{}, cc, mode&modeInitiator == 0)
	mem := make([]byte, around+fuzzRegion+around)
	r, err := c.Register(mem[around:around+fuzzRegion:around+fuzzRegion], rdma.RemoteRead|rdma.RemoteWrite|rdma.RemoteAtomic)
	require.NoError(t, err)
	c.startReader()

	p := newScriptPeer(t, c, b, r, mode, script)
	p.playScript()
	p.endStream()

	select {
	case err = <-h.closed:
	case <-time.After(testTimeout):
		require.FailNow(t, "the connection did not end", "%s", goroutineStacks())
	}
	require.NoError(t, c.Close())
	requireSoon(t, p.drained, "the end of what the connection sends")
	r.Deregister()
	p.checkResults(h, err, mem)
	require.Equal(t, out, buf.Default.Out(), "lent buffers")
	require.Nil(t, testDevice.findRegion(r.STag()))
	require.Less(t, totalAllocated()-heap, uint64(fuzzHeap), "bytes allocated")
	for start := time.Now(); runtime.NumGoroutine() > routines; runtime.Gosched() {
		if time.Since(start) > testTimeout {
			require.FailNow(t, "goroutines are left", "%s", goroutineStacks())
		}
	}
}

func goroutineStacks() []byte {
	b := make([]byte, 1<<16)
	return b[:runtime.Stack(b, true)]
}

// totalAllocated returns how many heap bytes the process has ever allocated.
func totalAllocated() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

// scriptHandler records its messages.
type scriptHandler struct {
	got    []string
	closed chan error
}

func (h *scriptHandler) Receive(m rdma.Recv) {
	body := string(m.Immediate[:])
	if m.Buf != nil {
		body = string(m.Buf.B)
		m.Buf.Release()
	}
	h.got = append(h.got, formatMessage(body, m.Solicited, m.WithInvalidate, m.WithImmediate))
}

func (h *scriptHandler) Closed(err error) { h.closed <- err }

// formatMessage returns a message's record.
func formatMessage(body string, solicited, invalidate, immediate bool) string {
	return fmt.Sprintf("%v %v %v %s", solicited, invalidate, immediate, body)
}

// checkResults compares the script's effects with the model.
func (p *scriptPeer) checkResults(h *scriptHandler, err error, mem []byte) {
	t := p.t
	for i, want := range p.want {
		if i < len(h.got) {
			require.Equal(t, want, h.got[i], "message %d", i)
		}
	}
	zeros := make([]byte, around)
	require.Equal(t, zeros, mem[:around])
	require.Equal(t, zeros, mem[around+fuzzRegion:])
	for i := range p.posted {
		select {
		case c := <-p.completions:
			require.EqualValues(t, i, c.ID, "completions in order")
		case <-time.After(testTimeout):
			require.FailNow(t, "no completion", "%d of %d", i, p.posted)
		}
	}
	require.Empty(t, p.completions)
	for _, s := range p.sinks {
		require.Equal(t, zeros, s.mem[:around])
		require.Equal(t, zeros, s.mem[len(s.mem)-around:])
	}
	if p.broken {
		return
	}
	require.Len(t, h.got, len(p.want))
	require.Equal(t, p.mem, mem[around:around+fuzzRegion], "the region")
	for i, s := range p.sinks {
		if s.answered {
			require.Equal(t, s.want, s.mem[around:len(s.mem)-around], "sink %d", i)
		}
	}
	orderly := errors.Is(err, io.EOF) || p.pipe && (isReset(err) || isTimeout(err))
	require.True(t, orderly, "an orderly end: %v", err)
}

// endStream sends the remaining bytes, and ends the stream.
func (p *scriptPeer) endStream() {
	p.flushFPDUs()
	p.startDraining()
	if nc, ok := p.nc.(*net.TCPConn); ok {
		_ = nc.CloseWrite()
		return
	}
	p.nc.Close()
}
