//go:build !amd64

package mpa

import "hash/crc32"

// updateCRC is crc32.Update for CRC32c.
func updateCRC(crc uint32, b []byte) uint32 { return crc32.Update(crc, castagnoli, b) }

// copyCRC copies src to dst and returns updateCRC for the copied bytes.
func copyCRC(crc uint32, dst, src []byte) uint32 { return updateCRC(crc, dst[:copy(dst, src)]) }
