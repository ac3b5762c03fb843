package iwarp

import (
	"encoding/binary"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/rdmap"
)

// A scriptPeer is the other end of a connection under FuzzPeer. It reads its
// actions from its script's bytes, and keeps a model with the expected results.
type scriptPeer struct {
	t      testing.TB
	c      *Conn
	nc     net.Conn
	stag   rdma.STag
	pipe   bool
	crc    bool
	lazy   bool
	cut    int // the bytes are sent in pieces up to 2^cut bytes; 0: whole
	script []byte
	random *rand.Rand

	out    []byte // FPDUs not sent yet
	change byte   // how the next FPDU is changed; 0: not
	broken bool   // an FPDU was changed: the model no longer applies
	opened bool   // an FPDU was made, after which a responder may send

	// The model.
	mem                []byte // the region's content
	dead               bool   // the region was invalidated
	want               []string
	msn                [3]uint32 // last MSN on queues 0, 1 and 3
	posted             uint64
	reads, atomics     int             // requested by the Conn
	readsDone, adsDone int             // answered
	order              []scriptRequest // requests from the Conn
	fence              int             // requests that must be answered before the next ones arrive
	sinks              []*scriptSink
	completions        completionWaiter

	drained  <-chan struct{}
	mu       sync.Mutex
	seen     sync.Cond
	requests int // received from the Conn
	answers  int // received whole from the Conn
	ended    bool
}

// A scriptRequest is a request that the Conn was told to send.
type scriptRequest struct {
	atomic bool
	fence  int // number of requests that must be answered first
}

// A scriptSink is the sink for an RDMA Read by the Conn.
type scriptSink struct {
	mem      []byte
	to       uint64
	want     []byte
	answered bool
}

func newScriptPeer(t testing.TB, c *Conn, nc net.Conn, r rdma.Region, mode byte, script []byte) *scriptPeer {
	p := &scriptPeer{
		t: t, c: c, nc: nc, stag: r.STag(), script: script,
		pipe: mode&modeTCP == 0, crc: mode&modeCRC != 0, lazy: mode&modeLazy != 0, cut: int(mode >> modeCut),
		random: rand.New(rand.NewPCG(uint64(mode), 9)),
		mem:    make([]byte, fuzzRegion), completions: make(completionWaiter, 8*fuzzScript),
		opened: mode&modeInitiator != 0,
	}
	p.seen.L = &p.mu
	if !p.lazy {
		p.startDraining()
	}
	return p
}

// nextByte returns the script's next byte, or 0 after its end.
func (p *scriptPeer) nextByte() byte {
	if len(p.script) == 0 {
		return 0
	}
	b := p.script[0]
	p.script = p.script[1:]
	return b
}

// nextSize reads a length from the script: often small, sometimes long.
func (p *scriptPeer) nextSize() int {
	n := int(p.nextByte())
	if n < 128 {
		return n
	}
	return (n - 128) * 300
}

// nextBytes returns n bytes that differ by position.
func (p *scriptPeer) nextBytes(n int) []byte { return patternSource[int(p.nextByte())*64:][:n] }

// queueSegment frames a segment, changed if a change is due, and keeps it for flush.
func (p *scriptPeer) queueSegment(segment []byte) {
	framed := frameFPDU(p.crc, segment)
	if p.change != 0 {
		framed = p.corruptFPDU(segment, framed)
		p.change, p.broken = 0, true
	}
	p.out = append(p.out, framed...)
	p.opened = true
	if len(p.out) > 1<<16 {
		p.flushFPDUs()
	}
}

// flushFPDUs sends the waiting FPDUs, in pieces.
func (p *scriptPeer) flushFPDUs() {
	_ = p.nc.SetWriteDeadline(time.Now().Add(testTimeout))
	for n := 0; len(p.out) > 0; n++ {
		k := len(p.out)
		if p.cut > 0 && n < fuzzPieces {
			k = min(k, 1+p.random.IntN(1<<p.cut))
		}
		_, err := p.nc.Write(p.out[:k])
		p.out = p.out[k:]
		if isTimeout(err) {
			require.FailNow(p.t, "the connection takes nothing", "%s", goroutineStacks())
		}
		if err != nil {
			p.broken, p.out = true, nil // the connection has ended
		}
	}
}

// startDraining starts to read the Conn's messages, up to the stream's end.
func (p *scriptPeer) startDraining() {
	if p.drained == nil {
		p.drained = runAsync(p.drainMessages)
	}
}

func (p *scriptPeer) drainMessages() {
	defer p.nc.Close()
	for {
		segment, err := p.readSegment()
		p.mu.Lock()
		if err != nil {
			p.ended = true
			p.seen.Broadcast()
			p.mu.Unlock()
			return
		}
		last, op := segment[0]&0x40 != 0, rdmap.Opcode(segment[1]&0x0f)
		switch {
		case op == rdmap.OpReadRequest, op == rdmap.OpAtomicRequest:
			p.requests++
		case (op == rdmap.OpReadResponse || op == rdmap.OpAtomicResponse) && last:
			p.answers++
		}
		p.seen.Broadcast()
		p.mu.Unlock()
	}
}

// readSegment reads an FPDU and returns its segment.
func (p *scriptPeer) readSegment() ([]byte, error) {
	var length [mpa.LengthLen]byte
	if _, err := io.ReadFull(p.nc, length[:]); err != nil {
		return nil, err
	}
	n := int(binary.BigEndian.Uint16(length[:]))
	rest := make([]byte, mpa.FPDULen(n)-mpa.LengthLen)
	if _, err := io.ReadFull(p.nc, rest); err != nil {
		return nil, err
	}
	segment := rest[:n]
	if n < 14 || string(frameFPDU(p.crc, segment)[mpa.LengthLen:]) != string(rest) {
		p.t.Errorf("the connection sent what is no FPDU: %x", segment)
	}
	return segment, nil
}

// awaitState waits until ready reports true. It returns the last report: after a
// change the Conn may have ended first.
func (p *scriptPeer) awaitState(what string, ready func() bool) bool {
	p.flushFPDUs()
	if p.lazy {
		p.broken = true // no goroutine reads the Conn's messages
		return false
	}
	late := time.AfterFunc(testTimeout, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.ended = true
		p.t.Errorf("%s did not come: %s", what, goroutineStacks())
		p.seen.Broadcast()
	})
	defer late.Stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	for !ready() && !p.ended {
		p.seen.Wait()
	}
	return ready()
}
