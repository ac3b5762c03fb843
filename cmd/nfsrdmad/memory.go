package main

import (
	"fmt"
	"strings"

	"github.com/nfsrdma/nfsrdma/internal/cli"
)

// memoryWord is the prefix of an argument for a file system in memory, instead of a DIR. A
// directory with such a name can be served as ./mem:.
const memoryWord = "mem:"

// Sizes of file systems in memory, in bytes.
const (
	defaultMemory = 1 << 30
	minMemory     = 1 << 20 // enough for a few files
	maxMemory     = 1 << 40 // more than hosts have
)

// parseMemory parses mem: and mem:SIZE. For a directory it returns 0.
func parseMemory(dir string) (size int64, err error) {
	word, ok := strings.CutPrefix(dir, memoryWord)
	switch {
	case !ok:
		return 0, nil
	case word == "":
		return defaultMemory, nil
	}
	size, err = cli.ParseSize(word, maxMemory)
	switch {
	case err != nil:
		return 0, fmt.Errorf("%s, a file system in memory of SIZE %q: %w; write ./%s for a directory of that name", dir, word, err, dir)
	case size < minMemory:
		return 0, fmt.Errorf("%s has %d bytes: a file system in memory needs 1MiB or more", dir, size)
	}
	return size, nil
}
