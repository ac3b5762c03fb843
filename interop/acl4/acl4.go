//go:build linux

// Package acl4 shows and sets access control lists by Linux's client over NFSv4, which
// has them as the extended attribute system.nfs4_acl. Command guestwork runs it.
//
// An entry is written as by nfs4_getfacl: TYPE:FLAGS:WHO:MASK, for example
// A:fdi:OWNER@:rwatTcCy.
package acl4

import (
	"fmt"
	"io"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
)

const attribute = "system.nfs4_acl"

// A letterTable assigns a letter to each bit in a number.
type letterTable []struct {
	bit    uint32
	letter byte
}

var (
	types = "ADUL"
	flags = letterTable{
		{nfs4.ACEFileInherit, 'f'},
		{nfs4.ACEDirectoryInherit, 'd'},
		{nfs4.ACENoPropagateInherit, 'n'},
		{nfs4.ACEInheritOnly, 'i'},
		{nfs4.ACEIdentifierGroup, 'g'},
	}
	masks = letterTable{
		{nfs4.ACEReadData, 'r'},
		{nfs4.ACEWriteData, 'w'},
		{nfs4.ACEAppendData, 'a'},
		{nfs4.ACEExecute, 'x'},
		{nfs4.ACEDeleteChild, 'D'},
		{nfs4.ACEReadAttributes, 't'},
		{nfs4.ACEWriteAttributes, 'T'},
		{nfs4.ACEReadACL, 'c'},
		{nfs4.ACEWriteACL, 'C'},
		{nfs4.ACESynchronize, 'y'},
	}
)

func (l letterTable) format(n uint32) string {
	var b strings.Builder
	for _, x := range l {
		if n&x.bit != 0 {
			b.WriteByte(x.letter)
		}
		n &^= x.bit
	}
	if n != 0 {
		fmt.Fprintf(&b, "?%#x", n)
	}
	return b.String()
}

func (l letterTable) parseBits(text string) (n uint32, err error) {
next:
	for i := range len(text) {
		for _, x := range l {
			if x.letter == text[i] {
				n |= x.bit
				continue next
			}
		}
		return 0, fmt.Errorf("acl4: unknown letter %q in %q", text[i], text)
	}
	return n, nil
}

// Text returns a list's entries.
func Text(a nfs4.ACL) []string {
	out := make([]string, len(a))
	for i, e := range a {
		typ := "?"
		if e.Type < uint32(len(types)) {
			typ = types[e.Type : e.Type+1]
		}
		out[i] = typ + ":" + flags.format(e.Flag) + ":" + string(e.Who) + ":" + masks.format(e.Mask)
	}
	return out
}

// parseEntries parses Text's result.
func parseEntries(entries []string) (nfs4.ACL, error) {
	var a nfs4.ACL
	for _, entry := range entries {
		f := strings.Split(entry, ":")
		if len(f) != 4 || len(f[0]) != 1 || !strings.Contains(types, f[0]) {
			return nil, fmt.Errorf("acl4: %q is no entry", entry)
		}
		e := nfs4.ACE{Type: uint32(strings.Index(types, f[0])), Who: []byte(f[2])}
		var err error
		if e.Flag, err = flags.parseBits(f[1]); err == nil {
			e.Mask, err = masks.parseBits(f[3])
		}
		if err != nil {
			return nil, err
		}
		a = append(a, e)
	}
	return a, nil
}

// Run sets a file's list, or without entries writes it, one entry per line.
func Run(path string, entries []string, out io.Writer) error {
	if len(entries) > 0 {
		a, err := parseEntries(entries)
		if err != nil {
			return err
		}
		return unix.Setxattr(path, attribute, a.AppendTo(nil), 0)
	}
	b := make([]byte, 64<<10)
	n, err := unix.Getxattr(path, attribute, b)
	if err != nil {
		return err
	}
	r := xdr.NewReader(b[:n])
	var a nfs4.ACL
	a.Decode(&r)
	if err := r.Done(); err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, strings.Join(Text(a), "\n"))
	return err
}
