package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// checkCrossing rejects the option crossmnt if there are mounts below dir, because an export
// consists of one mount.
func checkCrossing(dir string) error {
	path, _, err := resolveDir(dir)
	if err != nil {
		return err
	}
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return fmt.Errorf("crossmnt: %w", err)
	}
	if mounts := mountsBelow(table, path); len(mounts) > 0 {
		return fmt.Errorf("option crossmnt: clients of %s do not see %s, which is another mount: export it on its own line, and remove crossmnt",
			dir, strings.Join(mounts, ", "))
	}
	return nil
}

// mountsBelow returns the mounts below a directory according to the kernel's table (proc(5)):
// the fifth field of each line, in which blanks are escaped as \040 and so on.
func mountsBelow(table []byte, dir string) (mounts []string) {
	dir = strings.TrimSuffix(dir, "/") + "/"
	lines := bufio.NewScanner(bytes.NewReader(table))
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 5 {
			continue
		}
		if at := unescapeOctal(fields[4]); strings.HasPrefix(at, dir) && at != dir {
			mounts = append(mounts, at)
		}
	}
	return mounts
}

// unescapeOctal decodes \ooo in a field of the kernel's table.
func unescapeOctal(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
