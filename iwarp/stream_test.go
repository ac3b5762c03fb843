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

	"github.com/nfsrdma/nfsrdma/buf"
	"github.com/nfsrdma/nfsrdma/iwarp/mpa/mpatest"
	"github.com/nfsrdma/nfsrdma/iwarp/rdmap"
	"github.com/nfsrdma/nfsrdma/rdma"
)

// A session is what a peer sends in a connection's life, and what it leads to.
type session struct {
	octets   []byte
	ends     map[int]bool // where a message ends
	messages []delivery
	mem      []byte // that of the region, and around it, in the end
}

type delivery struct {
	at   int // octets of the session that must have come
	body string
}

// around is the memory before and behind the region of a session.
const around = 16

// recordSession makes a session with everything that a peer can send, into a region
// of 64 octets.
func recordSession(o raw, stag rdma.STag) session {
	s := session{ends: map[int]bool{0: true}, mem: make([]byte, 64+2*around)}
	stream := mpatest.Stream{Markers: o.markers, CRC: o.crc}
	add := func(last bool, segment []byte) {
		s.octets = append(s.octets, stream.Frame(segment)...)
		s.ends[len(s.octets)] = last
	}
	deliver := func(body string) {
		s.messages = append(s.messages, delivery{len(s.octets), body})
	}
	add(true, writeSeg(true, 0xdeadbeef, 77, nil))
	add(true, sendSeg(true, 1, 0, []byte("one")))
	deliver("one")
	add(true, writeSeg(false, stag, 0, []byte("abc"))) // no message that is delivered
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

// play sets a session up, has write send it and end it, and checks what it led
// to when the first n octets of it came. After a reset the last ones may be
// lost.
func play(t testing.TB, o raw, n int, reset bool, write func(p *rawPeer, octets []byte)) {
	t.Helper()
	o.recvs = 4
	e, p := againstRaw(t, o)
	mem := make([]byte, 64+2*around)
	r, err := e.Register(mem[around:around+64], rdma.RemoteRead|rdma.RemoteWrite)
	require.NoError(t, err)
	s := recordSession(o, r.STag())
	drained := done(func() { _, _ = io.Copy(io.Discard, p.nc) })
	write(p, s.octets[:n])
	for _, m := range s.messages {
		if n >= m.at && !reset {
			require.Equal(t, m.body, string(e.in.next(t)))
		}
	}
	err = e.in.end(t)
	switch {
	case reset || o.pipe:
		require.True(t, errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || isReset(err), "%d octets: %v", n, err)
	case s.ends[n]: // R5041-3-9-1, R5044-7.2-1
		require.ErrorIs(t, err, io.EOF, "%d octets", n)
	default: // R5044-6-2
		require.ErrorIs(t, err, io.ErrUnexpectedEOF, "%d octets", n)
	}
	within(t, drained, "the end")
	require.NoError(t, e.Close())
	require.Empty(t, e.in.recvs)
	r.Deregister()
	for i, b := range mem { // placed in part at most, and nothing else
		require.True(t, b == s.mem[i] || b == 0, "octet %d", i)
		if n == len(s.octets) {
			require.Equal(t, s.mem[i], b)
		}
	}
	p.nc.Close()
}

// streams are the ways in which sessions are tried.
var streams = []raw{{}, {crc: true}, {pipe: true}, {markers: true}, {crc: true, markers: true}, {pipe: true, markers: true}}

func (o raw) String() string {
	return fmt.Sprintf("crc %v, pipe %v, markers %v", o.crc, o.pipe, o.markers)
}

// The stream may end at every octet, by a FIN or by a reset (R5044-6-2,
// R5044-7.2-1, R5044-8-1).
func TestCut(t *testing.T) {
	for _, o := range streams {
		for _, reset := range []bool{false, true} {
			if o.pipe && reset {
				continue // it knows one end only
			}
			t.Run(fmt.Sprintf("%v, reset %v", o, reset), func(t *testing.T) {
				world(t)
				for n := range len(recordSession(o, 0).octets) + 1 {
					play(t, o, n, reset, func(p *rawPeer, octets []byte) {
						p.write(octets)
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

// TCP's segments and FPDUs need have nothing in common (R5044-5.1-4,
// R5044-5.2-1, R5044-A.4-1, R5044-3-7, R5044-4.3-9), and the upper layer sees
// neither them nor CRCs nor Markers (R5044-4.4-5, R5041-3-4-1).
func TestPieces(t *testing.T) {
	for _, o := range streams {
		for seed := range uint64(6) {
			t.Run(fmt.Sprintf("%v, %d", o, seed), func(t *testing.T) {
				world(t)
				random := rand.New(rand.NewPCG(seed, 1))
				play(t, o, len(recordSession(o, 0).octets), false, func(p *rawPeer, octets []byte) {
					for len(octets) > 0 {
						n := 1 // the first time
						if seed > 0 {
							n = 1 + random.IntN(min(len(octets), int(seed*seed*4)))
						}
						p.write(octets[:n])
						octets = octets[n:]
					}
					(&netLink{nc: p.nc}).closeWrite()
				})
			})
		}
	}
}

// What was read ends at every octet of every FPDU as well, and the rest has no room
// behind it (R5044-5.1-4).
func TestStagingEnds(t *testing.T) {
	const longest = 60 // FPDU of the session, at least
	for _, o := range streams {
		t.Run(o.String(), func(t *testing.T) {
			world(t)
			for room := longest; room < 2*longest; room++ {
				o.before = func(c *Conn) {
					c.rx.staging.Release()
					c.rx.room, c.rx.staging = room, buf.Default.Get(room)
				}
				play(t, o, len(recordSession(o, 0).octets), false, func(p *rawPeer, octets []byte) {
					p.write(octets)
					(&netLink{nc: p.nc}).closeWrite()
				})
			}
		})
	}
}

// The responses to our own Reads may end at every octet too.
func TestCutResponse(t *testing.T) {
	for _, o := range streams {
		t.Run(o.String(), func(t *testing.T) {
			world(t)
			o.initiator = true
			for n := 0; ; n++ {
				e, p := againstRaw(t, o)
				mem, done := make([]byte, 40), make(waiter, 3)
				require.NoError(t, e.Post(
					rdma.WR{Op: rdma.OpRead, Data: [][]byte{mem[10:20:20]}, Done: done},
					rdma.WR{Op: rdma.OpRead, Data: [][]byte{mem[20:30:30]}, Done: done},
					rdma.WR{Op: rdma.OpSend, Done: done},
				))
				first, second := p.readRequest(), p.readRequest()
				p.segment()
				octets := p.fpdu(responseSeg(false, first.SinkSTag, first.SinkTO, []byte("0123")))
				octets = append(octets, p.fpdu(responseSeg(true, first.SinkSTag, first.SinkTO+4, []byte("456789")))...)
				whole := []int{len(octets)}
				octets = append(octets, p.fpdu(responseSeg(true, second.SinkSTag, second.SinkTO, []byte("abcdefghij")))...)
				whole = append(whole, len(octets), len(octets)) // the Send completes behind the Reads
				p.write(octets[:n])
				p.nc.Close()
				for _, at := range whole {
					c := done.wait(t)
					if n >= at {
						require.NoError(t, c.Err, "%d octets", n)
					} else {
						require.ErrorIs(t, c.Err, rdma.ErrFlushed, "%d octets", n) // R5041-3-3-1, R5040-5.5-19-1
					}
				}
				e.in.end(t)
				require.NoError(t, e.Close())
				for i, b := range mem {
					want := byte(0)
					if i >= 10 && i < 30 {
						want = "0123456789abcdefghij"[i-10]
					}
					require.True(t, b == want || b == 0, "octet %d", i)
				}
				if n == len(octets) {
					assert.Equal(t, "0123456789abcdefghij", string(mem[10:30]))
					return
				}
			}
		})
	}
}
