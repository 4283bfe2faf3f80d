<?php
// What web_app.py describes, for php-fpm.
function content(int $length): string {
    $pattern = '';
    for ($number = 0; $number < 4096; $number++) {
        $pattern .= chr((7 * $number + intdiv($number, 256)) % 256);
    }
    return substr(str_repeat($pattern, intdiv($length, 4096) + 1), 0, $length);
}

[, $kind, $length] = explode('/', $_SERVER['DOCUMENT_URI']) + [2 => '0'];
$body = $_SERVER['REQUEST_METHOD'] === 'POST' ? file_get_contents('php://input') : content((int) $length);
if ($kind === 'error') {
    throw new Exception('asked to');
}
if ($kind === 'kill') {
    posix_kill(getmypid(), 9);
}
header('Content-Type: application/octet-stream');
if ($kind !== 'chunked') {
    header('Content-Length: ' . strlen($body));
}
if ($kind === 'half') {
    echo substr($body, 0, intdiv(strlen($body), 2));
    flush();
    posix_kill(getmypid(), 9);
}
echo $body;
