package packet

import "fmt"

// A DETH is UD's Datagram Extended Transport Header: Q_Key 32, reserved 8,
// source QP 24.
type DETH struct {
	QKey  uint32
	SrcQP uint32 // 24 bits
}

// AppendTo appends h's wire form to b.
func (h DETH) AppendTo(b []byte) []byte {
	b = be.AppendUint32(b, h.QKey)
	return be.AppendUint32(b, h.SrcQP&Mask24)
}

// A RETH is the RDMA Extended Transport Header in the packet that starts an
// RDMA WRITE.
type RETH struct {
	VA     uint64 // first byte's virtual address
	RKey   uint32
	Length uint32 // total message length, in bytes: DMA length
}

// AppendTo appends h's wire form to b.
func (h RETH) AppendTo(b []byte) []byte {
	b = be.AppendUint64(b, h.VA)
	b = be.AppendUint32(b, h.RKey)
	return be.AppendUint32(b, h.Length)
}

// A Packet is a RoCEv2 UDP datagram's content, without the ICRC. Its BTH
// determines which of the other headers it has.
type Packet struct {
	BTH
	DETH      DETH   // UD only
	RETH      RETH   // in a packet that starts an RDMA WRITE
	Immediate uint32 // if the opcode has it
	Payload   []byte // without the pad
}

// AppendHeaders appends all p's headers to b.
func (p *Packet) AppendHeaders(b []byte) []byte {
	b = p.BTH.AppendTo(b)
	if p.Opcode.Service() == UD {
		b = p.DETH.AppendTo(b)
	}
	if p.Opcode.Write() && p.Opcode.Starts() {
		b = p.RETH.AppendTo(b)
	}
	if p.Opcode.Immediate() {
		b = be.AppendUint32(b, p.Immediate)
	}
	return b
}

// AppendTo appends p with its payload and pad to b, without the ICRC.
func (p *Packet) AppendTo(b []byte) []byte {
	b = append(p.AppendHeaders(b), p.Payload...)
	return append(b, make([]byte, p.Pad)...)
}

// PadFor returns the number of bytes that pad n to a multiple of 4.
func PadFor(n int) uint8 { return uint8(-n & 3) }

// ParseExtended parses rest, the bytes between the BTH and the ICRC, according
// to p's opcode. If that is not Known, ParseExtended parses only the header
// that all the service's packets have. Payload aliases rest.
func (p *Packet) ParseExtended(rest []byte) error {
	var err error
	take := func(n int, what string) (head []byte) {
		if err == nil && len(rest) < n {
			err = fmt.Errorf("%w: %d of %d bytes of %s", ErrShort, len(rest), n, what)
		}
		if err != nil {
			return nil
		}
		head, rest = rest[:n], rest[n:]
		return head
	}
	if p.Opcode.Service() == UD {
		if h := take(DETHLen, "a DETH"); h != nil {
			p.DETH = DETH{QKey: be.Uint32(h), SrcQP: be.Uint32(h[4:]) & Mask24}
		}
	}
	if p.Opcode.Write() && p.Opcode.Starts() {
		if h := take(RETHLen, "a RETH"); h != nil {
			p.RETH = RETH{VA: be.Uint64(h), RKey: be.Uint32(h[8:]), Length: be.Uint32(h[12:])}
		}
	}
	if p.Opcode.Immediate() {
		if h := take(ImmLen, "immediate data"); h != nil {
			p.Immediate = be.Uint32(h)
		}
	}
	if err == nil && len(rest) < int(p.Pad) {
		err = fmt.Errorf("%w: %d of %d bytes of the pad", ErrShort, len(rest), p.Pad)
	}
	if err == nil {
		p.Payload = rest[:len(rest)-int(p.Pad)]
	}
	return err
}
