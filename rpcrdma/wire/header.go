// Package wire is the codec for RPC-over-RDMA's transport header (RFC 8166,
// Section 4). It must not know sockets, clocks or programs.
package wire

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/nfsrdma/nfsrdma/chunks"
)

// Version is the RPC-over-RDMA version that this package implements.
const Version = 1

// Lengths on the wire, in bytes.
const (
	// FixedLen is the length of XID, version, credits and procedure.
	FixedLen = 16
	// MinLen is the minimum message header length, with three empty lists.
	MinLen = FixedLen + 3*4
	// ErrChunkLen is the length of an RDMA_ERROR with ERR_CHUNK.
	ErrChunkLen = FixedLen + 4
	// ErrVersLen is the length of an RDMA_ERROR with ERR_VERS.
	ErrVersLen = ErrChunkLen + 2*4
)

// A Proc selects the fields that follow the fixed ones (RFC 8166, Section
// 4.2.4).
type Proc uint32

// The procedures.
const (
	Msg   Proc = 0 // RDMA_MSG: chunk lists, then the RPC message
	NoMsg Proc = 1 // RDMA_NOMSG: chunk lists; a chunk holds the RPC message
	MsgP  Proc = 2 // RDMA_MSGP: never sent, answered with ERR_CHUNK
	Done  Proc = 3 // RDMA_DONE: never sent, discarded
	Error Proc = 4 // RDMA_ERROR: an error code
)

// String returns the name that RFC 8166 uses.
func (p Proc) String() string {
	switch p {
	case Msg:
		return "RDMA_MSG"
	case NoMsg:
		return "RDMA_NOMSG"
	case MsgP:
		return "RDMA_MSGP"
	case Done:
		return "RDMA_DONE"
	case Error:
		return "RDMA_ERROR"
	}
	return fmt.Sprintf("Proc(%d)", uint32(p))
}

// A Header is the transport header of a message (RFC 8166, Section 4).
type Header struct {
	XID    uint32
	Vers   uint32
	Credit uint32 // requested in a call, granted in a reply
	Proc   Proc

	// Lists are the chunk lists in Msg and NoMsg.
	Lists chunks.Lists

	// Code is the reason in Error. If Code is ErrVers, Low and High are the
	// versions that the sender supports.
	Code      ErrCode
	Low, High uint32
}

// AppendTo appends h's wire form to b.
func (h *Header) AppendTo(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, h.XID)
	b = binary.BigEndian.AppendUint32(b, h.Vers)
	b = binary.BigEndian.AppendUint32(b, h.Credit)
	b = binary.BigEndian.AppendUint32(b, uint32(h.Proc))
	switch h.Proc {
	case Msg, NoMsg:
		return h.Lists.AppendTo(b)
	case Error:
		b = binary.BigEndian.AppendUint32(b, uint32(h.Code))
		if h.Code == ErrVers {
			b = binary.BigEndian.AppendUint32(b, h.Low)
			b = binary.BigEndian.AppendUint32(b, h.High)
		}
	}
	return b
}

// ParseCall parses the header at the start of b, which a requester sent, and
// returns the rest of b, which aliases b. It reuses h's memory. The error is a
// *HeaderError; XID, Vers and Credit are then set from b, unless b is too short
// for any header.
func (h *Header) ParseCall(b []byte) (body []byte, err error) {
	h.Lists.Reset()
	if len(b) < MinLen {
		h.XID, h.Vers, h.Credit, h.Proc = 0, 0, 0, 0
		return nil, h.Fail("rdma_msg", 0, ErrRunt)
	}
	h.ParseFixed(b)
	switch {
	case h.Proc == Error: // the same in all versions; a reply could itself be answered
		return nil, h.Fail("rdma_proc", 12, ErrDiscard)
	case h.Vers != Version:
		return nil, h.Fail("rdma_vers", 4, ErrVersion)
	case h.Proc == Done:
		return nil, h.Fail("rdma_proc", 12, ErrDiscard)
	case h.Proc != Msg && h.Proc != NoMsg: // MsgP included: Section 4.6.1
		return nil, h.Fail("rdma_proc", 12, ErrProc)
	}
	body, err = h.Lists.Parse(b[FixedLen:])
	if err != nil {
		return nil, h.ChunkError(err)
	}
	return body, nil
}

// ParseFixed reads the four fields that begin every header. The caller must
// have checked that b has FixedLen bytes.
func (h *Header) ParseFixed(b []byte) {
	h.XID = binary.BigEndian.Uint32(b)
	h.Vers = binary.BigEndian.Uint32(b[4:])
	h.Credit = binary.BigEndian.Uint32(b[8:])
	h.Proc = Proc(binary.BigEndian.Uint32(b[12:]))
}

// Fail returns a HeaderError for the field at an offset.
func (h *Header) Fail(field string, offset int, err error) error {
	return &HeaderError{XID: h.XID, Field: field, Offset: offset, Err: err}
}

// ChunkError converts an error from package chunks to a HeaderError.
func (h *Header) ChunkError(err error) error {
	var c *chunks.Error
	if errors.As(err, &c) {
		return h.Fail(c.Field, FixedLen+c.Offset, c.Err)
	}
	return h.Fail("rdma_body", FixedLen, err)
}
