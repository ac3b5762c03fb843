package wiretest

import (
	"encoding/hex"
	"fmt"
	"os"
	"strings"
	"testing"
)

// Hex returns the bytes of the golden file at path, which is relative to the
// package under test. It fails the test if the file cannot be read or contains
// anything but pairs of digits and comments.
func Hex(t testing.TB, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b, err := parseHex(string(text))
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return b
}

// Bytes returns the bytes in text, which has the form of a golden file. It is for a
// few bytes that are more readable next to the assertion.
func Bytes(t testing.TB, text string) []byte {
	t.Helper()
	b, err := parseHex(text)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func parseHex(text string) ([]byte, error) {
	var b []byte
	n := 0
	for line := range strings.Lines(text) {
		n++
		digits, _, _ := strings.Cut(line, "#")
		data, err := hex.DecodeString(strings.Join(strings.Fields(digits), ""))
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		b = append(b, data...)
	}
	return b, nil
}
