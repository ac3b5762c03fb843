package interop

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// A classic pcap file with Ethernet frames, as tcpdump writes it here:
// little-endian, times in microseconds.
const (
	pcapMagic     = 0xa1b2c3d4
	pcapHeader    = 24 // file header length in bytes
	pcapRecord    = 16 // bytes, in front of each packet
	pcapEthernet  = 1
	pcapMaxPacket = 1 << 18 // bytes; tcpdump's default limit
	ethernetLen   = 14
	ipv4Len       = 20 // without options
	tcpLen        = 20 // without options
	ipv4Type      = 0x0800
	tcpProtocol   = 6
)

// TCP flags.
const (
	flagSYN = 0x02
	flagPSH = 0x08
	flagACK = 0x10
)

var errCapture = errors.New("not a capture of Ethernet in little-endian pcap form")

// A tcpSegment is a captured TCP segment.
type tcpSegment struct {
	when    [8]byte // seconds and microseconds, as in the file
	flow    tcpFlow
	seq     uint32
	syn     bool
	payload []byte
}

// A tcpFlow is one direction of a TCP connection over IPv4.
type tcpFlow struct {
	src, dst         [4]byte
	srcPort, dstPort uint16
}

func (f tcpFlow) reversed() tcpFlow { return tcpFlow{f.dst, f.src, f.dstPort, f.srcPort} }

// readCapture calls f for each TCP segment in the file.
func readCapture(r io.Reader, f func(tcpSegment) error) error {
	var h [pcapHeader]byte
	if _, err := io.ReadFull(r, h[:]); err != nil {
		return fmt.Errorf("%w: %w", errCapture, err)
	}
	le := binary.LittleEndian
	if le.Uint32(h[:]) != pcapMagic || le.Uint32(h[20:]) != pcapEthernet {
		return errCapture
	}
	for {
		var rec [pcapRecord]byte
		_, err := io.ReadFull(r, rec[:])
		if err == io.EOF {
			return nil
		}
		n := le.Uint32(rec[8:])
		if err != nil || n > pcapMaxPacket {
			return fmt.Errorf("%w: record of %d bytes: %w", errCapture, n, err)
		}
		packet := make([]byte, n)
		if _, err := io.ReadFull(r, packet); err != nil {
			return fmt.Errorf("%w: %w", errCapture, err)
		}
		if s, ok := parseSegment(packet); ok {
			copy(s.when[:], rec[:8])
			if err := f(s); err != nil {
				return err
			}
		}
	}
}

// parseSegment parses a frame; s.payload aliases it.
func parseSegment(b []byte) (s tcpSegment, ok bool) {
	be := binary.BigEndian
	if len(b) < ethernetLen+ipv4Len || be.Uint16(b[12:]) != ipv4Type {
		return s, false
	}
	ip := b[ethernetLen:]
	head := int(ip[0]&0xf) * 4
	total := int(be.Uint16(ip[2:]))
	if total == 0 {
		total = len(ip) // more than 16 bits hold, before segmentation by the card
	}
	if ip[0]>>4 != 4 || ip[9] != tcpProtocol || head < ipv4Len || total > len(ip) || total < head+tcpLen {
		return s, false
	}
	tcp := ip[head:total]
	data := int(tcp[12]>>4) * 4
	if data < tcpLen || data > len(tcp) {
		return s, false
	}
	s.flow = tcpFlow{[4]byte(ip[12:]), [4]byte(ip[16:]), be.Uint16(tcp), be.Uint16(tcp[2:])}
	s.seq = be.Uint32(tcp[4:])
	s.syn = tcp[13]&flagSYN != 0
	s.payload = tcp[data:]
	return s, true
}

// A captureWriter writes TCP segments, one packet each.
type captureWriter struct {
	w   io.Writer
	seq map[tcpFlow]uint32 // the next sequence number
}

func newCaptureWriter(w io.Writer) (*captureWriter, error) {
	h := make([]byte, 0, pcapHeader)
	le := binary.LittleEndian
	h = le.AppendUint32(h, pcapMagic)
	h = le.AppendUint16(h, 2)
	h = le.AppendUint16(h, 4)
	h = append(h, make([]byte, 8)...)
	h = le.AppendUint32(h, pcapMaxPacket)
	h = le.AppendUint32(h, pcapEthernet)
	_, err := w.Write(h)
	return &captureWriter{w: w, seq: make(map[tcpFlow]uint32)}, err
}

// writeSegment appends a segment with its flow's next sequence number. Checksums
// are zero, as before a network card fills them in.
func (c *captureWriter) writeSegment(when [8]byte, f tcpFlow, payload []byte) error {
	be := binary.BigEndian
	total := ipv4Len + tcpLen + len(payload)
	b := make([]byte, pcapRecord+ethernetLen, pcapRecord+ethernetLen+total)
	copy(b, when[:])
	binary.LittleEndian.PutUint32(b[8:], uint32(ethernetLen+total))
	binary.LittleEndian.PutUint32(b[12:], uint32(ethernetLen+total))
	be.PutUint16(b[pcapRecord+12:], ipv4Type)
	if total > 0xffff {
		total = 0
	}
	b = append(b, 0x45, 0)
	b = be.AppendUint16(b, uint16(total))
	b = append(b, 0, 0, 0x40, 0, 64, tcpProtocol, 0, 0)
	b = append(b, f.src[:]...)
	b = append(b, f.dst[:]...)
	b = be.AppendUint16(b, f.srcPort)
	b = be.AppendUint16(b, f.dstPort)
	b = be.AppendUint32(b, c.seq[f])
	b = be.AppendUint32(b, c.seq[f.reversed()])
	b = append(b, tcpLen/4<<4, flagACK|flagPSH, 0xff, 0xff, 0, 0, 0, 0)
	c.seq[f] += uint32(len(payload))
	_, err := c.w.Write(append(b, payload...))
	return err
}
