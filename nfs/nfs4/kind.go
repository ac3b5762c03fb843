package nfs4

import (
	"encoding/binary"

	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
)

// MainOp returns the operation that determines a COMPOUND's cost: the first
// operation that neither is SEQUENCE nor only sets a filehandle, or the last one
// if there is no such operation. msg is the call message from its XID on. MainOp
// returns 0 if the call is not an NFSv4 COMPOUND, or its first operations cannot
// be decoded.
func MainOp(msg []byte) Op {
	p, ok := rpcmsg.ProcedureOf(msg)
	if !ok || p != (rpcmsg.Procedure{Prog: Program, Vers: Version, Proc: ProcCompound}) {
		return 0
	}
	w := wordReader{msg, callHeader}
	w.skipOpaque(4) // credential
	w.skipOpaque(4) // verifier
	w.skipOpaque(0) // tag
	w.nextWord()    // minor version
	last := Op(0)
	for range min(w.nextWord(), maxLeading) {
		op := Op(w.nextWord())
		switch op {
		case OpPutRootFH, OpPutPubFH, OpSaveFH, OpRestoreFH:
		case OpSequence:
			w.at += sequenceLen
		case OpPutFH:
			w.skipOpaque(0)
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

// wordReader reads the words of an unchecked message that has at least 4 bytes. Words past its end
// are 0. It is several times as fast as an xdr.Reader.
type wordReader struct {
	msg []byte
	at  int
}

// nextWord returns the next word.
func (w *wordReader) nextWord() uint32 {
	at := w.at
	if uint(at) > uint(len(w.msg)-4) { // 32 bits may have made it negative
		return 0
	}
	w.at = at + 4
	return binary.BigEndian.Uint32(w.msg[at:])
}

// skipOpaque skips some bytes, and the variable-length opaque data after them.
func (w *wordReader) skipOpaque(before int) {
	w.at += before
	w.at += int(w.nextWord()+3) &^ 3
}

const (
	// callHeader is the length in bytes of an RPC call up to its credential.
	callHeader = 6 * 4

	// maxLeading is the number of operations that MainOp examines. RENAME and
	// LINK follow four: SEQUENCE, PUTFH, SAVEFH, PUTFH.
	maxLeading = 8

	// sequenceLen is the length in bytes of SEQUENCE's arguments.
	sequenceLen = SessionIDSize + 4*4
)
