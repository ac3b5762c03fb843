package pcap

import (
	"bytes"
	"errors"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/wiretest"
)

var at = time.Unix(1_700_000_000, 123_456_789)

// newConversation writes a short conversation.
func newConversation(client, server string) []byte {
	var b bytes.Buffer
	f := NewFile(&b)
	c := f.Connect(at, netip.MustParseAddrPort(client), netip.MustParseAddrPort(server))
	c.Write(at.Add(time.Second), Client, []byte("hello"))
	c.Skip(Server, 1)
	c.Write(at.Add(2*time.Second), Server, []byte("odd"))
	if err := f.Flush(); err != nil {
		panic(err)
	}
	return b.Bytes()
}

// TestGolden checks the files. Their comments give tshark's dissection.
func TestGolden(t *testing.T) {
	assert.Equal(t, wiretest.Hex(t, "testdata/ipv4.hex"), newConversation("192.0.2.1:1234", "198.51.100.2:20049"))
	assert.Equal(t, wiretest.Hex(t, "testdata/ipv6.hex"), newConversation("[2001:db8::1]:1234", "[2001:db8::2]:20049"))
}

// checksum returns the checksum of RFC 1071 over b, including b's own checksum: 0 if
// right.
func checksum(b []byte) uint16 {
	s := uint32(0)
	for i, v := range b {
		s += uint32(v) << (8 * (1 - i%2))
		s = s&0xffff + s>>16
	}
	return ^uint16(s)
}

// TestLong checks that a packet longer than IP's field has length 0 and all its
// bytes.
func TestLong(t *testing.T) {
	for _, tt := range []struct {
		client, server string
		ip             int // its header, in bytes
		length         int // the offset of its length field
		limit          int // the largest value of the field, in bytes of TCP
	}{
		{"192.0.2.1:1", "192.0.2.2:2", ipv4Len, 2, 0xffff - ipv4Len - tcpLen},
		{"[::1]:1", "[::1]:2", ipv6Len, 4, 0xffff - tcpLen},
	} {
		for _, n := range []int{tt.limit, tt.limit + 1} {
			var b bytes.Buffer
			f := NewFile(&b)
			c := f.Connect(at, netip.MustParseAddrPort(tt.client), netip.MustParseAddrPort(tt.server))
			require.NoError(t, f.Flush())
			opening := b.Len()
			data := bytes.Repeat([]byte{1, 2, 3}, n/3+1)[:n]
			c.Write(at, Client, data)
			require.NoError(t, f.Flush())
			packet := b.Bytes()[opening+recordLen+ethernetLen:]
			length := int(be.Uint16(packet[tt.length:]))
			if n > tt.limit {
				assert.Zero(t, length)
				if tt.ip == ipv6Len {
					jumbo := []byte{protocolTCP, 0, 0xc2, 4, 0, 1, 0, 8}
					assert.Equal(t, jumbo, packet[ipv6Len:][:jumboLen])
					packet = slices.Delete(packet, ipv6Len, ipv6Len+jumboLen)
				}
			} else {
				assert.Equal(t, 0xffff, length)
			}
			assert.Equal(t, data, packet[tt.ip+tcpLen:])
			if tt.ip == ipv4Len {
				assert.Zero(t, checksum(packet[:ipv4Len]))
			}
			addresses := packet[tt.ip-2*len(netip.MustParseAddrPort(tt.client).Addr().AsSlice()) : tt.ip]
			pseudo := be.AppendUint32(bytes.Clone(addresses), uint32(tcpLen+n))
			pseudo = append(pseudo, 0, 0, 0, protocolTCP)
			assert.Zero(t, checksum(append(pseudo, packet[tt.ip:]...)))
		}
	}
}

// TestContinue checks that two files can become one.
func TestContinue(t *testing.T) {
	one, two := newConversation("192.0.2.1:1", "192.0.2.2:2"), newConversation("192.0.2.1:3", "192.0.2.2:2")
	want := append(bytes.Clone(one), two[HeaderLen:]...)
	for size := 1; size < 60; size++ {
		var b bytes.Buffer
		b.Write(one)
		w := Continue(&b)
		for rest := two; len(rest) > 0; {
			n, err := w.Write(rest[:min(size, len(rest))])
			require.NoError(t, err)
			require.Equal(t, min(size, len(rest)), n)
			rest = rest[n:]
		}
		assert.Equal(t, want, b.Bytes())
	}
}

var errFull = errors.New("no space")

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errFull }

// TestError checks that an error of any write is returned.
func TestError(t *testing.T) {
	for _, f := range []*File{NewFile(brokenWriter{}), NewFile(Continue(brokenWriter{}))} {
		c := f.Connect(at, netip.MustParseAddrPort("192.0.2.1:1"), netip.MustParseAddrPort("192.0.2.2:2"))
		c.Write(at, Server, make([]byte, 10_000))
		c.Write(at, Server, nil)
		assert.ErrorIs(t, f.Flush(), errFull)
	}
}
