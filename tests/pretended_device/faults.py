"""Mistakes that only a second device shows, each planted in a chapter's own cell."""

from pretended_device.cells import Fault

_TWO_DEVICES = "Expected all tensors to be on the same device"
_GENERATOR = "Expected a 'cuda' device type for generator"
_NO_ARRAY = "can't convert cuda:0 device type tensor to numpy"

FAULTS = (
    Fault(
        "01-normalization",
        "images stay on the CPU, the network does not",
        "test_images.repeat(1, 1, 4, 4).to(device)",
        "test_images.repeat(1, 1, 4, 4)",
        _TWO_DEVICES,
        shows_in="time with BatchNorm, divided by the time without",
    ),
    Fault(
        "03-autocast",
        "labels stay on the CPU",
        "digit_labels[:256].to(device)",
        "digit_labels[:256]",
        _TWO_DEVICES,
        shows_in="loss_in_autocast = torch.autocast(",
    ),
    Fault(
        "03-autocast",
        "a model stays on the CPU",
        "*layers).to(device)\n\n\ndef paint(",
        "*layers)\n\n\ndef paint(",
        _TWO_DEVICES,
    ),
    Fault(
        "03-autocast",
        "a CPU generator draws for the device",
        "weight = torch.randn(size, size, generator=generator).to(device)",
        "weight = torch.randn(size, size, generator=generator, device=device)",
        _GENERATOR,
        shows_in="def gradient_error(",
    ),
    Fault(
        "04-gradscaler",
        "points are made on the CPU",
        "line = torch.linspace(-1, 1, SIDE, device=device)",
        "line = torch.linspace(-1, 1, SIDE)",
        _TWO_DEVICES,
        shows_in="gradients_float32 = train_plate()",
    ),
    Fault(
        "04-gradscaler",
        "weights come out as an array, straight from the device",
        "for entry in weight.tolist()",
        "for entry in weight.detach().numpy()",
        _NO_ARRAY,
        shows_in="def after_bad_steps(",
    ),
    Fault(
        "05-accumulation",
        "labels stay on the CPU",
        "digit_labels[:256].to(device)",
        "digit_labels[:256]",
        _TWO_DEVICES,
    ),
    Fault(
        "06-checkpointing",
        "data are made on the CPU",
        'data = torch.randn(ROWS, WIDTH, device="cuda")',
        "data = torch.randn(ROWS, WIDTH)",
        _TWO_DEVICES,
    ),
    Fault(
        "07-broadcasting",
        "a CPU generator draws for the device",
        "torch.randint(64, (512, 8), device=device)",
        "torch.randint(64, (512, 8), device=device, generator=torch.Generator())",
        _GENERATOR,
    ),
    Fault(
        "09-data-loading",
        "a batch goes to the device, and from there into an array",
        "lambda: batch.cuda(), lambda:",
        "lambda: batch.cuda().numpy(), lambda:",
        _NO_ARRAY,
    ),
    Fault(
        "12-capstone",
        "masks stay on the CPU",
        "masks[:4].to(device)",
        "masks[:4]",
        _TWO_DEVICES,
    ),
)
