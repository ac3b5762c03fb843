package nfs4

import (
	"encoding/binary"

	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
)

// MainOp returns the operation that decides the cost of a COMPOUND: the first
// operation that neither is SEQUENCE nor only sets a filehandle, or the last one
// if there is no such operation. msg is the call message from its XID on. MainOp
// returns 0 for a call that is no COMPOUND of version 4, or whose first
// operations cannot be decoded.
func MainOp(msg []byte) Op {
	p, ok := rpcmsg.ProcedureOf(msg)
	if !ok || p != (rpcmsg.Procedure{Prog: Program, Vers: Version, Proc: ProcCompound}) {
		return 0
	}
	w := words{msg, callHeader}
	w.opaque(4) // credential
	w.opaque(4) // verifier
	w.opaque(0) // tag
	w.next()    // minor version
	last := Op(0)
	for range min(w.next(), maxLeading) {
		op := Op(w.next())
		switch op {
		case OpPutRootFH, OpPutPubFH, OpSaveFH, OpRestoreFH:
		case OpSequence:
			w.at += sequenceLen
		case OpPutFH:
			w.opaque(0)
		default:
			if op >= NumOp {
				return 0
			}
			return op
		}
		last = op
	}
	return last
}

// words reads the words of a message of at least 4 bytes that is not checked. Past its end they
// are 0. It is several times as fast as an xdr.Reader.
type words struct {
	msg []byte
	at  int
}

// next returns the next word.
func (w *words) next() uint32 {
	at := w.at
	if uint(at) > uint(len(w.msg)-4) { // 32 bits may have made it negative
		return 0
	}
	w.at = at + 4
	return binary.BigEndian.Uint32(w.msg[at:])
}

// opaque passes some bytes, and variable-length opaque data behind them.
func (w *words) opaque(before int) {
	w.at += before
	w.at += int(w.next()+3) &^ 3
}

const (
	// callHeader is the length in bytes of an RPC call up to its credential.
	callHeader = 6 * 4

	// maxLeading is how many operations MainOp looks at. RENAME and LINK come
	// behind four: SEQUENCE, PUTFH, SAVEFH, PUTFH.
	maxLeading = 8

	// sequenceLen is the length in bytes of SEQUENCE's arguments.
	sequenceLen = SessionIDSize + 4*4
)
