//go:build linux

package posix

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
var golden = entry{
	tableID: tableID{ino: 0x1122334455667788, birth: 0xa1a2a3a4a5a6a7a8, home: 2, gen: 3},
	places:  []place{{2, "new"}, {0x0102030405060708, "\xff\x80"}},
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
	assert.Equal(t, wire, golden.appendTo(nil), "files of released versions must stay readable")
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
	var e entry
	for i := range uint64(maxPlaces + 3) {
		e.add(place{i, "x"})
	}
	assert.Len(t, e.places, maxPlaces)
	assert.Equal(t, place{maxPlaces + 2, "x"}, e.places[0])
	e.add(place{maxPlaces, "x"})
	assert.Len(t, e.places, maxPlaces)
	assert.Equal(t, place{maxPlaces, "x"}, e.places[0])
	for i := range e.places {
		e.places[i].name = strings.Repeat("n", maxName)
	}
	rec := e.appendTo(nil)
	assert.Len(t, rec, maxRecord)
	got, err := parseRecord(rec)
	require.NoError(t, err)
	assert.Equal(t, e, got)
	for len(e.places) > 1 {
		e.dropButLast(e.places[0])
	}
	last := e.places[0]
	e.dropButLast(last)
	assert.Equal(t, []place{last}, e.places)
}

// FuzzRecord checks that a parsed record is written back the same. It corrects
// the checksum first, which random bytes would not have.
func FuzzRecord(f *testing.F) {
	f.Add(goldenRecord(f)[recordHead:])
	lost := entry{tableID: golden.tableID}
	f.Add(lost.appendTo(nil)[recordHead:])
	dead := entry{tableID: golden.tableID, dead: true, places: []place{{1, ""}}}
	f.Add(dead.appendTo(nil)[recordHead:])
	f.Fuzz(func(t *testing.T, body []byte) {
		if len(body) > math.MaxUint16 {
			return
		}
		rec := append(make([]byte, recordHead), body...)
		binary.BigEndian.PutUint16(rec[4:], uint16(len(body)))
		binary.BigEndian.PutUint32(rec, crc32.Checksum(rec[4:], castagnoli))
		e, err := parseRecord(rec)
		if err == nil {
			assert.Equal(t, rec, e.appendTo(nil))
		}
	})
}
