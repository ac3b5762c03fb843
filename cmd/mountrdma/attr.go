package main

import (
	"io/fs"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
)

// modeBits maps the mode bits of UNIX that Go keeps elsewhere.
var modeBits = map[uint32]fs.FileMode{0o4000: fs.ModeSetuid, 0o2000: fs.ModeSetgid, 0o1000: fs.ModeSticky}

// kinds maps the types of NFS to Go's.
var kinds = map[nfs3.Type]fs.FileMode{
	nfs3.TypeDir: fs.ModeDir, nfs3.TypeLnk: fs.ModeSymlink, nfs3.TypeBlk: fs.ModeDevice,
	nfs3.TypeChr: fs.ModeDevice | fs.ModeCharDevice, nfs3.TypeSock: fs.ModeSocket, nfs3.TypeFIFO: fs.ModeNamedPipe,
}

// goMode converts permission bits to Go's.
func goMode(mode uint32) fs.FileMode {
	m := fs.FileMode(mode & 0o777)
	for bit, flag := range modeBits {
		if mode&bit != 0 {
			m |= flag
		}
	}
	return m
}

// modeString writes type and permissions as ls(1) does.
func modeString(a *nfs3.Attr) string {
	b := []byte("?rwxrwxrwx")
	for kind, letter := range map[nfs3.Type]byte{
		nfs3.TypeReg: '-', nfs3.TypeDir: 'd', nfs3.TypeLnk: 'l', nfs3.TypeBlk: 'b',
		nfs3.TypeChr: 'c', nfs3.TypeSock: 's', nfs3.TypeFIFO: 'p',
	} {
		if kind == a.Type {
			b[0] = letter
		}
	}
	for i := range 9 {
		if a.Mode>>(8-i)&1 == 0 {
			b[1+i] = '-'
		}
	}
	// The set-user-ID, set-group-ID and sticky bits replace the x, in capitals
	// if the x bit is clear.
	for i, letter := range []byte("sst") {
		if x := &b[3*(i+1)]; a.Mode>>(11-i)&1 != 0 {
			if *x == '-' {
				letter -= 'a' - 'A'
			}
			*x = letter
		}
	}
	return string(b)
}

// goTime converts a time of NFS to Go's.
func goTime(t nfs3.Time) time.Time { return time.Unix(int64(t.Sec), int64(t.Nsec)) }

// nfsTime converts a time of Go to NFS's. A time out of the range of NFS
// becomes the nearest in range.
func nfsTime(t time.Time) nfs3.Time {
	sec := min(max(t.Unix(), 0), 1<<32-1)
	return nfs3.Time{Sec: uint32(sec), Nsec: uint32(t.Nanosecond())}
}

// tame returns name with all non-graphic characters replaced, so that a
// terminal obeys nothing in it.
func tame(name string) string {
	var b strings.Builder
	for len(name) > 0 {
		r, n := utf8.DecodeRuneInString(name)
		if r == utf8.RuneError && n == 1 || !unicode.IsGraphic(r) {
			r = '?'
		}
		b.WriteRune(r)
		name = name[n:]
	}
	return b.String()
}
