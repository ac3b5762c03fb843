package main

import (
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
)

// modeString formats type and permissions as ls(1) does.
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

// goTime converts an NFS time to a time.Time.
func goTime(t nfs3.Time) time.Time { return time.Unix(int64(t.Sec), int64(t.Nsec)) }

// replaceUnprintable replaces all non-graphic characters of name by question marks, so
// that it cannot control a terminal.
func replaceUnprintable(name string) string {
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
