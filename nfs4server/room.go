package nfs4server

import "github.com/nfsrdma/nfsrdma/nfs/nfs4"

// used returns the length in bytes of the results so far.
func (x *compound) used() int {
	if x.split {
		return x.reply.Len() - x.start + len(x.out)
	}
	return len(x.out) - x.start
}

// left returns how many bytes of results still fit beside the data items with a
// room of their own.
func (x *compound) left() int {
	return min(x.wholeLeft(), x.restRoom-x.used()+x.apart-x.reserved())
}

// wholeLeft returns how many bytes of results still fit in any room, also into
// the reply that the slot must keep.
func (x *compound) wholeLeft() int {
	room := x.room
	if x.keep {
		room = x.keptRoom
	}
	return room - x.used() - x.reserved()
}

// reserved returns how many bytes must be left behind an operation's results: the
// next operation may have no room, and then must be able to say so.
func (x *compound) reserved() int {
	if x.i+1 < x.n {
		return longestFailure
	}
	return 0
}

// fits reports whether an operation's longest results fit into the reply, and
// into the slot's copy. An object is made only if the results of GETFH fit
// too: the client could not learn its filehandle otherwise (RFC 8881, Section
// 2.10.6.4).
func (x *compound) fits(o *operation) nfs4.Status {
	longest := max(o.longest, minResult)
	if o.flags&makes != 0 && x.i+1 < x.n {
		longest += operations[nfs4.OpGetFH].longest
	}
	return x.fit(longest)
}

// fit returns OK if results of n bytes fit into the reply, and into the
// slot's copy.
func (x *compound) fit(n int) nfs4.Status {
	n += x.reserved()
	switch {
	case x.used()+n > x.room, x.used()-x.apart+n > x.restRoom:
		return nfs4.ErrRepTooBig
	case x.keep && x.used()+n > x.keptRoom:
		return nfs4.ErrRepTooBigToCache
	}
	return nfs4.OK
}

// tooBig returns the status of variable results that do not fit.
func (x *compound) tooBig() nfs4.Status {
	if x.keep && x.used() <= x.room && x.used()-x.apart <= x.restRoom {
		return nfs4.ErrRepTooBigToCache
	}
	return nfs4.ErrRepTooBig
}

// noRoom returns the status of an operation whose results have no room, by the
// minor version (RFC 7530, Section 13.1.3.4).
func (x *compound) noRoom(status nfs4.Status) nfs4.Status {
	if x.minor == nfs4.Minor0 {
		return nfs4.ErrResource
	}
	return status
}

// minResult is the length in bytes of an operation's number and status.
const minResult = 8

// longestFailure is the length in bytes of the longest results of an operation
// that failed for want of room: those of SETATTR have a bitmap.
const longestFailure = minResult + 4
