package krb5

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/oncrpc/gss"
)

func sampleEntries() []keytabEntry {
	return []keytabEntry{
		newEntry(nfsServer, 2, testKey(AES256SHA1, 1)), newEntry(nfsServer, 70000, testKey(AES128SHA256, 2)),
		{gss.Principal{Name: []string{"a", "", "b\x00c"}, Realm: ""}, 1, 23, nil},
	}
}

// TestKeytab reads entries, among holes, with the key version in one byte or in
// four.
func TestKeytab(t *testing.T) {
	want := sampleEntries()
	got, err := parseKeytab(keytabFile(want...))
	require.NoError(t, err)
	require.Len(t, got, 3)
	for i := range want {
		assert.Equal(t, want[i].principal, got[i].principal)
		assert.Equal(t, want[i].kvno, got[i].kvno)
		assert.Equal(t, want[i].enctype, got[i].enctype)
		assert.Equal(t, append([]byte{}, want[i].value...), append([]byte{}, got[i].value...))
	}

	short := encodeEntry(want[0], false)
	for _, end := range [][]byte{nil, {0}, {0, 0, 0}, {0, 0, 0, 0}, {0, 0, 0, 0, 9, 9}} {
		file := binary.BigEndian.AppendUint32([]byte{5, 2}, 0xfffffff8) // a hole of 8 bytes
		file = append(file, "12345678"...)
		file = binary.BigEndian.AppendUint32(file, uint32(len(short)+len(end)))
		file = append(append(file, short...), end...)
		got, err = parseKeytab(file)
		require.NoError(t, err)
		require.Len(t, got, 1)
		assert.EqualValues(t, 2, got[0].kvno)
	}
	got, err = parseKeytab(append(keytabFile(want[0]), 0, 0, 0, 0, 'x'))
	assert.NoError(t, err, "a size of zero is the end")
	assert.Len(t, got, 1)
}

// TestKeytabErrors cuts a keytab at each byte, and changes its sizes.
func TestKeytabErrors(t *testing.T) {
	entries := sampleEntries()
	file := keytabFile(entries...)
	ends := map[int]bool{2: true, len(file): true, 2 + 4 + len(encodeEntry(entries[0], true)): true, len(file) - 4 - len(encodeEntry(entries[2], true)): true}
	for n := range file {
		_, err := parseKeytab(file[:n])
		assert.Equal(t, ends[n], err == nil, "%d: %v", n, err)
	}
	for _, tt := range []struct {
		file []byte
		want string
	}{
		{nil, "not a version 0x0502 keytab"},
		{[]byte{5, 1}, "not a version 0x0502 keytab"},
		{[]byte{5, 2, 0, 0}, "cut off at byte 2"},
		{[]byte{5, 2, 0, 0, 0, 9, 1}, "the entry at byte 2 is cut off"},
		{[]byte{5, 2, 0x80, 0, 0, 0}, "the entry at byte 2 is cut off"},
		{[]byte{5, 2, 0, 0, 0, 2, 0xff, 0xff}, "the entry at byte 2 is malformed"},
		{append([]byte{5, 2, 0, 0, 0, 17}, make([]byte, 17)...), "the entry at byte 2 is malformed"}, // no components
	} {
		_, err := parseKeytab(tt.file)
		assert.EqualError(t, err, tt.want)
	}
}

// FuzzKeytab reads any bytes as a keytab: an entry that is read has a name.
func FuzzKeytab(f *testing.F) {
	f.Add(keytabFile(sampleEntries()...))
	f.Add([]byte{5, 2, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		entries, err := parseKeytab(b)
		if err != nil {
			require.Empty(t, entries)
		}
		for _, e := range entries {
			require.NotEmpty(t, e.principal.Name)
		}
	})
}
