/* Decimals as text and as whole numbers of 128 bits, for statemigrate_codec. */

#ifndef STATEMIGRATE_CODEC_DIGITS_H
#define STATEMIGRATE_CODEC_DIGITS_H

#include <stddef.h>

/* Any number of 38 digits fits: 10^38 < 2^127. */
typedef __int128 whole;
typedef unsigned __int128 magnitude;

#define MOST_DIGITS 38
/* A sign, the digits, and an exponent of at most two digits. */
#define MOST_TEXT 48

static magnitude power_of_ten(int exponent)
{
    magnitude power = 1;
    while (exponent-- > 0)
        power *= 10;
    return power;
}

/* The number that `text`, a Decimal as str() gives it, has at `scale`. False where the digits are
 * more than the precision and the scale have room for, and for what is no finite number. */
static int whole_of_text(const char *text, size_t size, int precision, int scale, whole *number)
{
    const char *at = text, *end = text + size;
    int negative = 0, digits = 0, some = 0, point = 0, behind = 0, exponent = 0;
    magnitude found = 0;

    if (at < end && *at == '-') {
        negative = 1;
        at++;
    }
    for (; at < end; at++) {
        if (*at == '.') {
            if (point)
                return 0;
            point = 1;
        } else if (*at >= '0' && *at <= '9') {
            some = 1;
            if (digits || *at != '0')
                if (++digits > MOST_DIGITS)
                    return 0;
            found = found * 10 + (magnitude)(*at - '0');
            if (point && ++behind > 1000)
                return 0;
        } else {
            break;
        }
    }
    if (!some)
        return 0;
    if (at < end) {
        int down = 0, many = 0;
        if (*at != 'E' && *at != 'e')
            return 0;
        at++;
        if (at < end && (*at == '+' || *at == '-'))
            down = *at++ == '-';
        for (; at < end; at++) {
            if (*at < '0' || *at > '9' || ++many > 4)
                return 0;
            exponent = exponent * 10 + (*at - '0');
        }
        if (!many)
            return 0;
        if (down)
            exponent = -exponent;
    }
    exponent -= behind;
    /* Zero has one digit. */
    if (!digits)
        digits = 1;
    if (exponent < -scale || digits + exponent > precision - scale)
        return 0;
    found *= power_of_ten(exponent + scale);
    *number = negative ? -(whole)found : (whole)found;
    return 1;
}

/* A whole number of at most 38 digits at `scale` as text for Decimal(); its first character. */
static const char *text_of_whole(whole number, int scale, char text[MOST_TEXT], size_t *size)
{
    char *end = text + MOST_TEXT, *at = end;
    magnitude rest = number < 0 ? -(magnitude)number : (magnitude)number;
    unsigned long long low;

    if (scale) {
        if (scale >= 10) {
            *--at = (char)('0' + scale % 10);
            *--at = (char)('0' + scale / 10);
        } else {
            *--at = (char)('0' + scale);
        }
        *--at = '-';
        *--at = 'E';
    }
    while (rest >> 64) {
        *--at = (char)('0' + (int)(rest % 10));
        rest /= 10;
    }
    low = (unsigned long long)rest;
    do {
        *--at = (char)('0' + (int)(low % 10));
        low /= 10;
    } while (low);
    if (number < 0)
        *--at = '-';
    *size = (size_t)(end - at);
    return at;
}

/* Whether a number is below a power of ten, on either side of zero. */
static int has_digits(whole number, magnitude limit)
{
    return number < (whole)limit && number > -(whole)limit;
}

/* The number in big-endian bytes, at least one of them. False where it needs more than
 * 128 bits, or is not below 10^precision. */
static int whole_of_bytes(const unsigned char *data, size_t size, magnitude limit, whole *number)
{
    unsigned char sign = data[0] & 128 ? 255 : 0;
    magnitude found = sign ? ~(magnitude)0 : 0;
    whole value;

    while (size > sizeof(whole)) {
        if (*data != sign)
            return 0;
        data++;
        size--;
    }
    /* What was left out is the sign, and must be so still. */
    if (size == sizeof(whole) && (data[0] & 128) != (sign & 128))
        return 0;
    while (size--)
        found = found << 8 | *data++;
    value = (whole)found;
    if (!has_digits(value, limit))
        return 0;
    *number = value;
    return 1;
}

/* The fewest bytes that hold the number with its sign. */
static size_t bytes_of_whole(whole number)
{
    magnitude rest = number < 0 ? ~(magnitude)number : (magnitude)number;
    size_t size = 1;

    while (rest >> 7) {
        rest >>= 8;
        size++;
    }
    return size;
}

/* The number in `size` big-endian bytes, which hold it. */
static void put_whole(whole number, unsigned char *data, size_t size)
{
    while (size--) {
        data[size] = (unsigned char)(number & 255);
        number >>= 8;
    }
}

#endif
