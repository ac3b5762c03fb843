package iwarp

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/buf"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/mpa/mpatest"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/rdmap"
)

// A recordedSession is the bytes that a peer sends during a connection, with the
// expected result.
type recordedSession struct {
	bytes    []byte
	ends     map[int]bool // offsets at which a message ends
	messages []delivery
	mem      []byte // expected final content: the region and the memory around it
}

type delivery struct {
	at   int // bytes in the session that must have arrived
	body string
}

// around is how many bytes are before and after a session's region.
const around = 16

// recordSession makes a session with everything that a peer can send, into a 64
// byte region.
func recordSession(o rawOptions, stag rdma.STag) recordedSession {
	s := recordedSession{ends: map[int]bool{0: true}, mem: make([]byte, 64+2*around)}
	stream := mpatest.Stream{Markers: o.markers, CRC: o.crc}
	add := func(last bool, segment []byte) {
		s.bytes = append(s.bytes, stream.Frame(segment)...)
		s.ends[len(s.bytes)] = last
	}
	deliver := func(body string) {
		s.messages = append(s.messages, delivery{len(s.bytes), body})
	}
	add(true, writeSeg(true, 0xdeadbeef, 77, nil))
	add(true, sendSeg(true, 1, 0, []byte("one")))
	deliver("one")
	add(true, writeSeg(false, stag, 0, []byte("abc"))) // not delivered to the upper layer
	add(true, writeSeg(true, stag, 3, []byte("defgh")))
	add(false, sendSeg(false, 2, 0, []byte("in p")))
	add(false, sendSeg(false, 2, 4, nil))
	add(true, sendSeg(true, 2, 4, []byte("ieces")))
	deliver("in pieces")
	add(true, requestSeg(1, rdmap.ReadRequest{SinkSTag: 1, Size: 20, SourceSTag: stag}))
	add(true, writeSeg(true, stag, 60, []byte("wxyz")))
	add(true, sendSeg(true, 3, 0, nil))
	deliver("")
	add(true, invalidateSeg(4, stag, []byte("done")))
	deliver("done")
	copy(s.mem[around:], "abcdefgh")
	copy(s.mem[around+60:], "wxyz")
	return s
}

// playSession sets up a session, calls write to send its first n bytes and end the
// stream, and checks the result. After a reset the last messages may be lost.
func playSession(t testing.TB, o rawOptions, n int, reset bool, write func(p *rawPeer, data []byte)) {
	t.Helper()
	o.recvs = 4
	e, p := connectRaw(t, o)
	mem := make([]byte, 64+2*around)
	r, err := e.Register(mem[around:around+64], rdma.RemoteRead|rdma.RemoteWrite)
	require.NoError(t, err)
	s := recordSession(o, r.STag())
	drained := runAsync(func() { _, _ = io.Copy(io.Discard, p.nc) })
	write(p, s.bytes[:n])
	for _, m := range s.messages {
		if n >= m.at && !reset {
			require.Equal(t, m.body, string(e.inbox.nextMessage(t)))
		}
	}
	err = e.inbox.closeError(t)
	switch {
	case reset || o.pipe:
		require.True(t, errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || isReset(err), "%d bytes: %v", n, err)
	case s.ends[n]: // R5041-3-9-1, R5044-7.2-1
		require.ErrorIs(t, err, io.EOF, "%d bytes", n)
	default: // R5044-6-2
		require.ErrorIs(t, err, io.ErrUnexpectedEOF, "%d bytes", n)
	}
	requireSoon(t, drained, "the end")
	require.NoError(t, e.Close())
	require.Empty(t, e.inbox.recvs)
	r.Deregister()
	for i, b := range mem { // placed in part at most, and nothing beyond
		require.True(t, b == s.mem[i] || b == 0, "byte %d", i)
		if n == len(s.bytes) {
			require.Equal(t, s.mem[i], b)
		}
	}
	p.nc.Close()
}

// streams are the stream variants in which sessions are tried.
var streams = []rawOptions{{}, {crc: true}, {pipe: true}, {markers: true}, {crc: true, markers: true}, {pipe: true, markers: true}}

func (o rawOptions) String() string {
	return fmt.Sprintf("crc %v, pipe %v, markers %v", o.crc, o.pipe, o.markers)
}

// TestCut checks that the stream may end at every byte, by a FIN or by a reset
// (R5044-6-2, R5044-7.2-1, R5044-8-1).
func TestCut(t *testing.T) {
	for _, o := range streams {
		for _, reset := range []bool{false, true} {
			if o.pipe && reset {
				continue // a pipe has no reset
			}
			t.Run(fmt.Sprintf("%v, reset %v", o, reset), func(t *testing.T) {
				checkLeaks(t)
				for n := range len(recordSession(o, 0).bytes) + 1 {
					playSession(t, o, n, reset, func(p *rawPeer, data []byte) {
						p.writeBytes(data)
						switch nc := p.nc.(type) {
						case *net.TCPConn:
							if reset {
								require.NoError(t, nc.SetLinger(0))
								nc.Close()
								return
							}
							require.NoError(t, nc.CloseWrite())
						default:
							nc.Close()
						}
					})
				}
			})
		}
	}
}

// TestPieces checks that TCP's segments and FPDUs need not align (R5044-5.1-4,
// R5044-5.2-1, R5044-A.4-1, R5044-3-7, R5044-4.3-9), and that the upper layer
// sees neither FPDUs, CRCs nor Markers (R5044-4.4-5, R5041-3-4-1).
func TestPieces(t *testing.T) {
	for _, o := range streams {
		for seed := range uint64(6) {
			t.Run(fmt.Sprintf("%v, %d", o, seed), func(t *testing.T) {
				checkLeaks(t)
				random := rand.New(rand.NewPCG(seed, 1))
				playSession(t, o, len(recordSession(o, 0).bytes), false, func(p *rawPeer, data []byte) {
					for len(data) > 0 {
						n := 1 // seed 0
						if seed > 0 {
							n = 1 + random.IntN(min(len(data), int(seed*seed*4)))
						}
						p.writeBytes(data[:n])
						data = data[n:]
					}
					(&netLink{nc: p.nc}).closeWrite()
				})
			})
		}
	}
}

// TestStagingEnds checks that the staged bytes may end at every byte in every
// FPDU, with no space left for the rest (R5044-5.1-4).
func TestStagingEnds(t *testing.T) {
	const longest = 60 // the session's longest FPDU, at least
	for _, o := range streams {
		t.Run(o.String(), func(t *testing.T) {
			checkLeaks(t)
			for stagingLen := longest; stagingLen < 2*longest; stagingLen++ {
				o.before = func(c *Conn) {
					c.rx.staging.Release()
					c.rx.stagingLen, c.rx.staging = stagingLen, buf.Default.Get(stagingLen)
				}
				playSession(t, o, len(recordSession(o, 0).bytes), false, func(p *rawPeer, data []byte) {
					p.writeBytes(data)
					(&netLink{nc: p.nc}).closeWrite()
				})
			}
		})
	}
}

// TestCutResponse checks that the responses to our own Reads may end at every
// byte too.
func TestCutResponse(t *testing.T) {
	for _, o := range streams {
		t.Run(o.String(), func(t *testing.T) {
			checkLeaks(t)
			o.initiator = true
			for n := 0; ; n++ {
				e, p := connectRaw(t, o)
				mem, done := make([]byte, 40), make(completionWaiter, 3)
				require.NoError(t, e.Post(
					rdma.WR{Op: rdma.OpRead, Data: [][]byte{mem[10:20:20]}, Done: done},
					rdma.WR{Op: rdma.OpRead, Data: [][]byte{mem[20:30:30]}, Done: done},
					rdma.WR{Op: rdma.OpSend, Done: done},
				))
				first, second := p.expectReadRequest(), p.expectReadRequest()
				p.readSegment()
				data := p.frameFPDU(responseSeg(false, first.SinkSTag, first.SinkTO, []byte("0123")))
				data = append(data, p.frameFPDU(responseSeg(true, first.SinkSTag, first.SinkTO+4, []byte("456789")))...)
				whole := []int{len(data)}
				data = append(data, p.frameFPDU(responseSeg(true, second.SinkSTag, second.SinkTO, []byte("abcdefghij")))...)
				whole = append(whole, len(data), len(data)) // the Send completes after the Reads
				p.writeBytes(data[:n])
				p.nc.Close()
				for _, at := range whole {
					c := done.wait(t)
					if n >= at {
						require.NoError(t, c.Err, "%d bytes", n)
					} else {
						require.ErrorIs(t, c.Err, rdma.ErrFlushed, "%d bytes", n) // R5041-3-3-1, R5040-5.5-19-1
					}
				}
				e.inbox.closeError(t)
				require.NoError(t, e.Close())
				for i, b := range mem {
					want := byte(0)
					if i >= 10 && i < 30 {
						want = "0123456789abcdefghij"[i-10]
					}
					require.True(t, b == want || b == 0, "byte %d", i)
				}
				if n == len(data) {
					assert.Equal(t, "0123456789abcdefghij", string(mem[10:30]))
					return
				}
			}
		})
	}
}
