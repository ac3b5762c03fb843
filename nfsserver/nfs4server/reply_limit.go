package nfs4server

import "github.com/nfsrdma/nfsrdma/nfs/nfs4"

// resultLen returns the length in bytes of the results so far.
func (x *compound) resultLen() int {
	if x.afterItem {
		return x.reply.Len() - x.headStart + len(x.out)
	}
	return len(x.out) - x.headStart
}

// bytesLeft returns the number of bytes that still fit into the results outside data items with
// their own chunk.
func (x *compound) bytesLeft() int {
	return min(x.replyBytesLeft(), x.inlineLimit-x.resultLen()+x.itemBytes-x.reservedLen())
}

// replyBytesLeft returns the number of bytes that still fit into the whole reply, including the
// copy that the slot must cache.
func (x *compound) replyBytesLeft() int {
	limit := x.replyLimit
	if x.cacheReply {
		limit = x.cachedLimit
	}
	return limit - x.resultLen() - x.reservedLen()
}

// reservedLen returns the number of bytes to keep free after an operation's results: the next
// operation may lack space, and must be able to report that.
func (x *compound) reservedLen() int {
	if x.opIndex+1 < x.opCount {
		return maxFailureLen
	}
	return 0
}

// checkReplySpace checks that an operation's longest results fit into the reply, and into the slot's
// copy. An operation may create an object only if GETFH's results fit too: the client could not
// learn its filehandle otherwise (RFC 8881, Section 2.10.6.4).
func (x *compound) checkReplySpace(o *operation) nfs4.Status {
	longest := max(o.maxResultLen, minResultLen)
	if o.flags&createsObject != 0 && x.opIndex+1 < x.opCount {
		longest += operations[nfs4.OpGetFH].maxResultLen
	}
	return x.checkResultLen(longest)
}

// checkResultLen returns OK if n bytes of results fit into the reply, and into the slot's copy.
func (x *compound) checkResultLen(n int) nfs4.Status {
	n += x.reservedLen()
	switch {
	case x.resultLen()+n > x.replyLimit, x.resultLen()-x.itemBytes+n > x.inlineLimit:
		return nfs4.ErrRepTooBig
	case x.cacheReply && x.resultLen()+n > x.cachedLimit:
		return nfs4.ErrRepTooBigToCache
	}
	return nfs4.OK
}

// tooBigStatus returns the status for variable results that do not fit.
func (x *compound) tooBigStatus() nfs4.Status {
	if x.cacheReply && x.resultLen() <= x.replyLimit && x.resultLen()-x.itemBytes <= x.inlineLimit {
		return nfs4.ErrRepTooBigToCache
	}
	return nfs4.ErrRepTooBig
}

// convertTooBig returns the minor version's status for an operation whose results do not fit
// (RFC 7530, Section 13.1.3.4).
func (x *compound) convertTooBig(status nfs4.Status) nfs4.Status {
	if x.minor == nfs4.Minor0 {
		return nfs4.ErrResource
	}
	return status
}

// minResultLen is the length in bytes of an operation's number and status.
const minResultLen = 8

// maxFailureLen is the maximum length in bytes of the results of an operation that failed for
// lack of space: SETATTR's contain a bitmap.
const maxFailureLen = minResultLen + 4
