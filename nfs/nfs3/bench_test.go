package nfs3

import (
	"fmt"
	"testing"

	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
)

// A message is encoded by one end and decoded by the other.
func BenchmarkMessages(b *testing.B) {
	file := FH(make([]byte, 28))
	attr := PostOpAttr{OK: true, Attr: Attr{Type: TypeReg, Size: 1 << 30}}
	data := make([]byte, 4096)
	for _, bb := range []struct {
		name     string
		msg, got message
	}{
		{"ReadArgs", &ReadArgs{File: file, Offset: 4096, Count: 4096}, new(ReadArgs)},
		{"ReadRes", &ReadRes{Attr: attr, Count: 4096, Data: data}, new(ReadRes)},
		{"WriteArgs", &WriteArgs{File: file, Data: data}, new(WriteArgs)},
		{"WriteRes", &WriteRes{Count: 4096}, new(WriteRes)},
		{"GetAttrRes", &GetAttrRes{Attr: attr.Attr}, new(GetAttrRes)},
		{"LookupRes", &LookupRes{Object: file, ObjAttr: attr, DirAttr: attr}, new(LookupRes)},
	} {
		b.Run(bb.name, func(b *testing.B) {
			out := make([]byte, 0, 8192)
			var r xdr.Reader // reused, as in a call
			b.ReportAllocs()
			for b.Loop() {
				wire := bb.msg.AppendTo(out)
				if item := itemOf(bb.msg); item != nil {
					wire = append(wire, item...)
				}
				r = xdr.NewReader(wire)
				bb.got.Decode(&r)
				if err := r.Done(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkReadDirPlus encodes and decodes a reply with 100 entries.
func BenchmarkReadDirPlus(b *testing.B) {
	entries := make([]Entry, 100)
	for i := range entries {
		entries[i] = Entry{
			FileID: uint64(i), Name: fmt.Appendf(nil, "f%05d", i), Cookie: uint64(i),
			Attr: PostOpAttr{OK: true, Attr: Attr{Type: TypeReg}}, Handle: make(FH, 28),
		}
	}
	out := make([]byte, 0, 64<<10)
	var r xdr.Reader // reused, as in a call
	b.ReportAllocs()
	for b.Loop() {
		w := NewDirWriter(out, true, 1<<20, 1<<20)
		for i := range entries {
			w.Add(&entries[i])
		}
		r = xdr.NewReader(w.Finish(&entries[0].Attr, 0, true))
		var res DirRes
		res.Decode(&r)
		var e Entry
		n := 0
		for d := (DirReader{R: &r, Plus: true}); d.Next(&e); n++ {
		}
		if n != len(entries) || r.Done() != nil {
			b.Fatal(n, r.Err())
		}
	}
}
