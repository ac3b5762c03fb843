package main

import (
	"fmt"
	"strings"

	"github.com/nfsrdma/nfsrdma/internal/cli"
)

// memoryWord begins the argument of a file system in memory, in place of a DIR.
// A directory of such a name can be served as ./mem:.
const memoryWord = "mem:"

// Sizes of file systems in memory, in bytes.
const (
	defaultMemory = 1 << 30
	minMemory     = 1 << 20 // some files
	maxMemory     = 1 << 40 // more than hosts have
)

// parseMemory parses mem: and mem:SIZE. For other directories it returns 0.
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
		return 0, fmt.Errorf("%s, a file system in memory of SIZE %q: %w; a directory of that name is ./%s", dir, word, err, dir)
	case size < minMemory:
		return 0, fmt.Errorf("%s has %d bytes: give a file system in memory 1MiB or more", dir, size)
	}
	return size, nil
}
