package recorder

import (
	"bytes"
	"encoding/binary"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/pcap"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/mpa"
)

// fakeConn has an input, and discards its output.
type fakeConn struct {
	net.Conn
	in *strings.Reader
}

func (c fakeConn) Read(b []byte) (int, error)  { return c.in.Read(b) }
func (c fakeConn) Write(b []byte) (int, error) { return len(b), nil }
func (c fakeConn) LocalAddr() net.Addr         { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 1} }

func (c fakeConn) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 2), Port: 2} }

// packetPayloads returns the payloads in r's packets behind TCP's opening.
func packetPayloads(t testing.TB, r *Recorder) (all [][]byte) {
	t.Helper()
	var file bytes.Buffer
	require.NoError(t, r.Write(&file))
	for b := file.Bytes()[pcap.HeaderLen:]; len(b) > 0; {
		end := 16 + int(binary.LittleEndian.Uint32(b[8:]))
		tcp := b[16+14+20 : end]
		all = append(all, tcp[int(tcp[12]>>4)*4:])
		b = b[end:]
	}
	require.GreaterOrEqual(t, len(all), 3)
	return all[3:]
}

// newFPDU returns an FPDU with a ULPDU and its CRC.
func newFPDU(ulpdu string) []byte {
	b := append(mpa.AppendLength(nil, len(ulpdu)), ulpdu...)
	return mpa.AppendTrailer(b, len(ulpdu), mpa.UpdateCRC(0, b))
}

// TestInTime checks that a sent message precedes its answer in the record, even
// if it is recorded later.
func TestInTime(t *testing.T) {
	r := New(fakeConn{}, 1, pcap.Client)
	now := time.Now()
	call, reply := newFPDU("the call"), newFPDU("the reply")
	r.Sent(now, 10, [][]byte{call})
	r.Received(now.Add(2), len(reply), [][]byte{reply})
	r.Sent(now.Add(1), len(call)-10, [][]byte{call[10:]})
	assert.Equal(t, [][]byte{call, reply}, packetPayloads(t, r))
}

// TestWrongCRC checks that a wrong CRC stays wrong when the Markers are
// removed, and that a correct CRC becomes the remaining bytes' CRC.
func TestWrongCRC(t *testing.T) {
	for _, wrong := range []byte{0, 1} {
		r := New(fakeConn{}, 1, pcap.Server)
		nc := r.Tap(fakeConn{in: strings.NewReader("MPA ID Req Frame\xc0\x01\x00\x00")})
		_, err := nc.Read(make([]byte, 100))
		require.NoError(t, err)
		_, err = nc.Write([]byte("MPA ID Rep Frame\xc0\x01\x00\x00")) // the server wants Markers
		require.NoError(t, err)
		plain := newFPDU("the ULPDU")
		end := len(plain) - mpa.CRCLen
		marked := append(make([]byte, mpa.MarkerLen), plain[:end]...)
		marked = binary.LittleEndian.AppendUint32(marked, mpa.UpdateCRC(0, marked))
		plain[len(plain)-1] ^= wrong
		marked[len(marked)-1] ^= wrong
		r.Received(time.Now(), len(marked), [][]byte{marked})
		got := packetPayloads(t, r)
		require.Len(t, got, 3)
		assert.Equal(t, "MPA ID Req Frame\x40\x01\x00\x00", string(got[0]))
		if wrong == 0 {
			assert.Equal(t, plain, got[2])
		} else {
			assert.Equal(t, marked[mpa.MarkerLen:], got[2])
		}
	}
}

// TestAllocs checks that recording allocates nothing once the ring has reached
// its size, which is bounded.
func TestAllocs(t *testing.T) {
	r := New(fakeConn{}, 1, pcap.Client)
	header, payload := make([]byte, 20), make([]byte, 5000)
	one := newFPDU("0123456789")
	binary.BigEndian.PutUint16(header, uint16(18+len(payload)-mpa.TrailerLen(18+len(payload))))
	now := time.Now()
	once := func() {
		r.Sent(now, len(header)+3000, [][]byte{header, payload[:4000]})
		r.Received(now, len(one), [][]byte{one})
		r.Sent(now, len(payload)-3000, [][]byte{payload[3000:]})
	}
	for range 100 {
		once()
	}
	assert.Zero(t, testing.AllocsPerRun(1000, once))
	assert.LessOrEqual(t, len(r.ring.b), minSize)
}

// FuzzLane checks that a direction finds the same FPDUs however the stream is
// cut.
func FuzzLane(f *testing.F) {
	f.Add([]byte{0, 1, 2, 0, 0, 0, 0, 0, 0, 0, 0}, uint16(3), true)
	f.Add(bytes.Repeat(newFPDU("hello"), 30), uint16(100), false)
	f.Fuzz(func(t *testing.T, stream []byte, cut uint16, markers bool) {
		cutInto := func(size int) (lengths []int) {
			l := direction{markers: markers}
			begun := 0
			for b := stream; len(b) > 0; {
				n, starts, ends := l.nextPiece(b[:min(size, len(b))])
				require.Positive(t, n)
				require.Equal(t, begun == 0, starts)
				begun += n
				if ends {
					lengths = append(lengths, begun)
					begun = 0
				}
				b = b[n:]
			}
			return append(lengths, begun)
		}
		assert.Equal(t, cutInto(1<<20), cutInto(1+int(cut)))
	})
}
