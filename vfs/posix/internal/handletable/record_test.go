//go:build linux

package handletable

import (
	"encoding/binary"
	"encoding/hex"
	"hash/crc32"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// golden is the entry of testdata/record.hex.
var golden = Entry{
	ID:     ID{Ino: 0x1122334455667788, Birth: 0xa1a2a3a4a5a6a7a8, Home: 2, Gen: 3},
	Places: []Place{{2, "new"}, {0x0102030405060708, "\xff\x80"}},
}

// goldenRecord reads the hexadecimal bytes of testdata/record.hex; # begins a
// comment.
func goldenRecord(t testing.TB) (b []byte) {
	text, err := os.ReadFile("testdata/record.hex")
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		line, _, _ = strings.Cut(line, "#")
		data, err := hex.DecodeString(strings.Join(strings.Fields(line), ""))
		require.NoError(t, err)
		b = append(b, data...)
	}
	return b
}

func TestRecord(t *testing.T) {
	wire := goldenRecord(t)
	assert.Equal(t, wire, golden.appendRecord(nil), "files of released versions must stay readable")
	got, err := parseRecord(wire)
	require.NoError(t, err)
	assert.Equal(t, golden, got)
	for n := range wire {
		_, err := parseRecord(wire[:n])
		assert.ErrorIs(t, err, errRecord, n)
		for bit := range 8 {
			bad := append([]byte(nil), wire...)
			bad[n] ^= 1 << bit
			_, err = parseRecord(bad)
			assert.ErrorIs(t, err, errRecord, "bit %d of byte %d", bit, n)
		}
	}
}

func TestRecordPlaces(t *testing.T) {
	var e Entry
	for i := range uint64(maxPlaces + 3) {
		e.AddPlace(Place{i, "x"})
	}
	assert.Len(t, e.Places, maxPlaces)
	assert.Equal(t, Place{maxPlaces + 2, "x"}, e.Places[0])
	e.AddPlace(Place{maxPlaces, "x"})
	assert.Len(t, e.Places, maxPlaces)
	assert.Equal(t, Place{maxPlaces, "x"}, e.Places[0])
	for i := range e.Places {
		e.Places[i].Name = strings.Repeat("n", MaxName)
	}
	e.SetIdentity(Identity{1, 2})
	rec := e.appendRecord(nil)
	assert.Len(t, rec, maxRecord)
	got, err := parseRecord(rec)
	require.NoError(t, err)
	assert.Equal(t, e, got)
	for len(e.Places) > 1 {
		e.DropButLast(e.Places[0])
	}
	last := e.Places[0]
	e.DropButLast(last)
	assert.Equal(t, []Place{last}, e.Places)
}

// FuzzRecord checks that a parsed record is written back the same. It corrects
// the checksum first, which random bytes would not have.
func FuzzRecord(f *testing.F) {
	f.Add(goldenRecord(f)[recordHead:])
	lost := Entry{ID: golden.ID}
	f.Add(lost.appendRecord(nil)[recordHead:])
	dead := Entry{ID: golden.ID, Dead: true, Places: []Place{{1, ""}}}
	f.Add(dead.appendRecord(nil)[recordHead:])
	link := Entry{ID: golden.ID, Link: true, changedIdentity: Identity{1, 2}, Places: []Place{{1, "a"}}}
	f.Add(link.appendRecord(nil)[recordHead:])
	f.Fuzz(func(t *testing.T, body []byte) {
		if len(body) > math.MaxUint16 {
			return
		}
		rec := append(make([]byte, recordHead), body...)
		binary.BigEndian.PutUint16(rec[4:], uint16(len(body)))
		binary.BigEndian.PutUint32(rec, crc32.Checksum(rec[4:], castagnoli))
		e, err := parseRecord(rec)
		if err == nil {
			assert.Equal(t, rec, e.appendRecord(nil))
		}
	})
}
