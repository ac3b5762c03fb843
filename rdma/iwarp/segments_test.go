package iwarp

import (
	"bytes"
	"encoding/binary"

	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/rdmap"
)

// The functions below make the segments that a raw peer sends.

func sendSeg(last bool, msn, mo uint32, payload []byte) []byte {
	return append(rdmap.AppendUntagged(nil, rdmap.OpSend, last, 0, msn, mo), payload...)
}

func invalidateSeg(msn uint32, stag rdma.STag, payload []byte) []byte {
	return append(rdmap.AppendUntagged(nil, rdmap.OpSendInvalidate, true, stag, msn, 0), payload...)
}

func writeSeg(last bool, stag rdma.STag, to uint64, payload []byte) []byte {
	return append(rdmap.AppendTagged(nil, rdmap.OpWrite, last, stag, to), payload...)
}

func responseSeg(last bool, stag rdma.STag, to uint64, payload []byte) []byte {
	return append(rdmap.AppendTagged(nil, rdmap.OpReadResponse, last, stag, to), payload...)
}

func requestSeg(msn uint32, r rdmap.ReadRequest) []byte {
	return r.AppendTo(rdmap.AppendUntagged(nil, rdmap.OpReadRequest, true, 0, msn, 0))
}

func atomicSeg(msn uint32, r rdmap.AtomicRequest) []byte {
	return r.AppendTo(rdmap.AppendUntagged(nil, rdmap.OpAtomicRequest, true, 0, msn, 0))
}

func atomicResponseSeg(msn uint32, r rdmap.AtomicResponse) []byte {
	return r.AppendTo(rdmap.AppendUntagged(nil, rdmap.OpAtomicResponse, true, 0, msn, 0))
}

func immediateSeg(msn uint32, solicited bool, data ...byte) []byte {
	return append(rdmap.AppendUntagged(nil, rdmap.ImmediateOpcode(solicited), true, 0, msn, 0), data...)
}

// frameFPDU frames a segment.
func frameFPDU(crc bool, segment []byte) []byte {
	b := append(mpa.AppendLength(nil, len(segment)), segment...)
	if crc {
		return mpa.AppendTrailer(b, len(segment), mpa.UpdateCRC(0, b))
	}
	return mpa.AppendTrailerNoCRC(b, len(segment))
}

// paddedFPDU frames a segment with a padding other than zeros, and the matching
// CRC.
func paddedFPDU(segment []byte, with byte) []byte {
	b := append(mpa.AppendLength(nil, len(segment)), segment...)
	for range mpa.PadLen(len(segment)) {
		b = append(b, with)
	}
	return binary.LittleEndian.AppendUint32(b, mpa.UpdateCRC(0, b))
}

// withByte copies b with byte i set to v.
func withByte(b []byte, i int, v byte) []byte {
	b = bytes.Clone(b)
	b[i] = v
	return b
}

// withWord copies b with the four bytes at i set to v.
func withWord(b []byte, i int, v uint32) []byte {
	b = bytes.Clone(b)
	binary.BigEndian.PutUint32(b[i:], v)
	return b
}
